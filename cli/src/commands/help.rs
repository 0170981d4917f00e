//! `heapattach help`: the options of a command, or a chapter of the guide.

use std::io;

use clap::CommandFactory;

use crate::{
    args::{Cli, HelpArgs},
    exit_status::Exit,
    guide::{self, CHAPTERS},
    output::{complain, print},
};
use heapattach_view::{Colour, Page};

/// Prints what was asked about.
pub fn help(args: &HelpArgs) -> Exit {
    let Some(topic) = &args.topic else { return print(index().trim_end(), Exit::Done) };
    if let Some(chapter) = guide::chapter(topic) {
        let width = Page::for_stream(Colour::Never, &io::stdout()).width();
        return print(chapter.plain(width).trim_end(), Exit::Done);
    }
    if let Some(text) = options_of(topic) {
        return print(text.trim_end(), Exit::Done);
    }
    complain(&format!(
        "`{topic}` is neither a command nor a topic of the guide; `heapattach help` lists both"
    ));
    Exit::Usage
}

/// All options of a command.
fn options_of(name: &str) -> Option<String> {
    let mut command = Cli::command();
    command.build();
    command.find_subcommand_mut(name).map(|found| found.render_long_help().to_string())
}

/// Commands and topics.
fn index() -> String {
    let row = |name: &str, about: &str| format!("  {name:<13}{about}\n");
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let commands = shown.map(|command| {
        row(command.get_name(), &command.get_about().map(ToString::to_string).unwrap_or_default())
    });
    let topics = CHAPTERS.iter().map(|chapter| row(chapter.topic, chapter.about));
    format!(
        "Commands (heapattach help COMMAND: all options of it):\n{}\n\
         heapattach -p PID attaches to a process; `heapattach --help` has all options of that.\n\n\
         Guide (heapattach help TOPIC):\n{}",
        commands.collect::<String>(),
        topics.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_topics_are_listed_and_no_topic_hides_a_command() {
        let index = index();
        let command = Cli::command();
        for command in command.get_subcommands() {
            assert!(index.contains(&format!("\n  {} ", command.get_name())), "{index}");
            assert!(guide::chapter(command.get_name()).is_none());
        }
        assert!(CHAPTERS.iter().all(|c| index.contains(&format!("\n  {} ", c.topic))), "{index}");
    }

    #[test]
    fn a_command_is_shown_with_all_its_options() {
        let text = options_of("check").unwrap();
        assert!(text.contains("--max-leak-per-stack") && text.contains("Examples:"), "{text}");
        assert!(options_of("nonsense").is_none());
    }
}
