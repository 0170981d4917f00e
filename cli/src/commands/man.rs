//! `heapattach man`: the manual pages, made of the same words as `--help`.

use std::{fs, io, path::Path};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::{
    args::{Cli, ManArgs},
    exit::Exit,
    output::{complain, print},
};

/// Prints the page, or writes those of all commands.
pub fn man(args: &ManArgs) -> Exit {
    let Some(folder) = &args.folder else {
        return print(page(Cli::command()).trim_end(), Exit::Done);
    };
    match write(folder) {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(&format!("manual pages cannot be written to {}: {error}", folder.display()));
            Exit::Failed
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for own in shown.cloned() {
        let name = format!("heapattach-{}.1", own.get_name());
        fs::write(folder.join(name), page(own))?;
    }
    fs::write(folder.join("heapattach.1"), page(Cli::command()))
}

/// One page, with its examples after the options, where manual pages have them.
fn page(command: Command) -> String {
    let mut out = Vec::new();
    // Writing into memory cannot fail.
    let _ = Man::new(command)
        .source(format!("heapattach {}", env!("CARGO_PKG_VERSION")))
        .render(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_examples_and_every_command_that_is_shown() {
        let page = page(Cli::command());
        assert!(page.contains("heapattach \\-p 4711 \\-\\-duration 60s"), "{page}");
        for name in ["report", "diff", "run", "doctor", "detach", "completions", "man"] {
            assert!(page.contains(&format!("heapattach\\-{name}(1)")), "{name}: {page}");
        }
    }
}
