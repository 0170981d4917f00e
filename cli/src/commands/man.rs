//! `heapattach man`: the manual pages of the commands, made of the same words as `--help`, and those
//! of the guide.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::{
    args::{Cli, ManArgs},
    exit_status::Exit,
    guide::CHAPTERS,
    output::{complain, print},
};
use heapattach_files::output_file::{self, Readers};

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
    let mut command = Cli::command();
    command.build();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for own in shown.cloned() {
        let name = format!("heapattach-{}.1", own.get_name());
        put(&folder.join(name), &page(own))?;
    }
    put(&folder.join("heapattach.1"), &page(Cli::command()))?;
    let guide = folder_of_guide(folder);
    fs::create_dir_all(&guide)?;
    CHAPTERS.iter().try_for_each(|chapter| {
        let name = format!("heapattach-{}.7", chapter.topic);
        put(&guide.join(name), &chapter.manual_page())
    })
}

/// `man` looks for section 7 in a folder beside that of section 1.
fn folder_of_guide(folder: &Path) -> PathBuf {
    let is_section = folder.file_name().is_some_and(|name| name == "man1");
    if is_section { folder.with_file_name("man7") } else { folder.to_owned() }
}

fn put(path: &Path, page: &str) -> io::Result<()> {
    output_file::write(path, page, Readers::Usual).map_err(io::Error::other)
}

/// One page; its examples stand before the options, where the eye falls.
fn page(command: Command) -> String {
    let examples = command
        .get_before_long_help()
        .or(command.get_before_help())
        .map_or(String::new(), ToString::to_string);
    let (has_commands, mut out) = (command.has_subcommands(), Vec::new());
    let man = Man::new(command).source(format!("heapattach {}", env!("CARGO_PKG_VERSION")));
    // Writing into memory cannot fail.
    let _ = man.render_title(&mut out);
    let _ = man.render_name_section(&mut out);
    let _ = man.render_synopsis_section(&mut out);
    let _ = man.render_description_section(&mut out);
    out.extend(verbatim(&examples).into_bytes());
    let _ = man.render_options_section(&mut out);
    if has_commands {
        let _ = man.render_subcommands_section(&mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Examples as they are: no line of them is moved, and none is a command of the typesetter.
fn verbatim(examples: &str) -> String {
    if examples.is_empty() {
        return String::new();
    }
    let lines = examples.lines().filter(|line| *line != "Examples:");
    let line = |line: &str| format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
    format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lies_where_man_looks() {
        let folder = |path: &str| folder_of_guide(Path::new(path));
        assert_eq!(folder("/usr/share/man/man1"), Path::new("/usr/share/man/man7"));
        assert_eq!(folder("/tmp/pages"), Path::new("/tmp/pages"));
    }

    #[test]
    fn the_page_has_examples_and_every_command_that_is_shown() {
        let page = page(Cli::command());
        assert!(page.contains("\n\\&  heapattach \\-p 4711 \\-\\-duration 60s"), "{page}");
        for name in ["report", "diff", "run", "doctor", "detach", "completions", "man"] {
            assert!(page.contains(&format!("heapattach\\-{name}(1)")), "{name}: {page}");
        }
    }
}
