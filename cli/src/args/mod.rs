//! What the user typed: one file a command, and one for each group of options that several share.

mod agent;
mod allocator;
mod attach;
mod check;
mod choice;
mod completions;
mod detach;
mod diff;
mod doctor;
mod form;
mod heap;
mod help;
pub mod json;
mod limits;
mod live;
mod man;
mod moment;
mod outlet;
mod quiet;
mod recording_view;
mod report;
mod roots;
mod run;
mod schema;
mod session;
mod status;

pub use agent::{AgentArgs, LogForm};
pub use allocator::{AllocatorArgs, RemedyArg};
pub use attach::{AttachArgs, LoaderArg};
pub use check::CheckArgs;
pub use completions::{CompletionsArgs, Shell};
pub use detach::DetachArgs;
pub use diff::DiffArgs;
pub use doctor::DoctorArgs;
pub use form::{FileFormat, MomentForm};
pub use heap::HeapArgs;
pub use help::HelpArgs;
pub use live::{PushArgs, ServeArgs, TopArgs, ViewArgs};
pub use man::ManArgs;
pub use outlet::GithubArg;
pub use recording_view::LookArgs;
pub use report::ReportArgs;
pub use run::RunArgs;
pub use schema::SchemaArgs;
pub use session::TablesArgs;
pub use status::StatusArgs;

use clap::{Parser, Subcommand};

use crate::terminal::Verbosity;
use crate::version;

/// The heading of options that few need.
const EXPERT: &str = "Expert options";

const SHORT: &str = "\
Examples:
  heapattach redis-server --duration 60s   whose code has memory in use in this process?
  heapattach -p 4711 --flow --duration 10m does it grow, does it leak, how sure is that?
  heapattach check -- ./tests              which blocks are leaked at the end? 23 if any";

const MORE: &str = "\
`heapattach --help` lists all options, `heapattach help` the chapters of the guide.";

const EXAMPLES: &str = "\
Examples:
  heapattach -p 4711 --duration 60s      whose code has memory in use in this process? for a minute
  heapattach -p 4711                     the same until Ctrl-C
  heapattach -p 4711 --follow            the largest sites, every five seconds; SIGUSR1 marks a moment
  heapattach redis-server                by name; also --cgroup redis.service, --container 4f1c8a2b
  heapattach run -- ./server --port 80   from the first instruction on
  heapattach check -- ./tests            which blocks are leaked at its end? 23 if any
  heapattach heap -p 4711                what all its memory is now: in use, free, stacks, files
  heapattach allocator -p 4711           what malloc itself counts, and advice; stops nothing
  heapattach report FILE                 a recording again: trees, pictures, other tools
  heapattach diff A B                    the difference between two of them
  heapattach view -p 4711                live, in a browser
  heapattach serve -p 4711               live: go tool pprof http://..., Prometheus, a browser
  heapattach doctor -p 4711              what would be done to it; touches nothing
  heapattach status                      sessions, and what killed ones left
  heapattach detach -p 4711              clean up what a killed one left

The hooks are mapped from outside, not loaded with dlopen: a remote dlopen can deadlock the target.
For those who want them to be a shared object all the same: --loader dlopen --hooks slots.";

/// Tells what the memory of a live process is doing, and leaves the process as it was.
#[derive(Debug, Parser)]
#[command(
    name = "heapattach",
    version,
    long_version = version::LONG.as_str(),
    before_help = SHORT,
    before_long_help = EXAMPLES,
    after_help = MORE,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// Attach to a process.
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Or do something else.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands with a name.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a program and record from its first instruction
    Run(Box<RunArgs>),
    /// Find leaked blocks: those that no pointer leads to any more
    Check(Box<CheckArgs>),
    /// Tell what all memory of a process is now: blocks in use, free, stacks, files
    Heap(Box<HeapArgs>),
    /// Tell what the allocator of a process counts, and what could be set otherwise
    Allocator(Box<AllocatorArgs>),
    /// Show a recording, or write it for another program
    Report(Box<ReportArgs>),
    /// Show the difference between recordings, or moments of one
    Diff(Box<DiffArgs>),
    /// Show a live profile on the terminal: what is in use, what grows, what allocates
    Top(Box<TopArgs>),
    /// Show a session in a browser while it goes on, or a recording
    View(Box<ViewArgs>),
    /// Serve live profiles and figures over HTTP: pprof's readers, Prometheus, browsers
    Serve(Box<ServeArgs>),
    /// Watch processes of this machine by rules, within a budget
    Agent(Box<AgentArgs>),
    /// Say what would be done to a process, without touching it
    Doctor(DoctorArgs),
    /// List sessions, and what killed ones left
    Status(StatusArgs),
    /// Clean up what a killed heapattach left in a process
    Detach(DetachArgs),
    /// Print all options of a command, or a chapter of the guide
    Help(HelpArgs),
    /// Print the JSON Schema of what --json and --format json write
    Schema(SchemaArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all pages into a folder
    Man(ManArgs),
}

impl Cli {
    /// How much is said besides the result.
    pub fn verbosity(&self) -> Verbosity {
        match &self.command {
            None => self.attach.session.verbosity(),
            Some(Command::Run(args)) => args.verbosity(),
            Some(Command::Check(args)) => args.verbosity(),
            Some(_) => Verbosity::Usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// A usual terminal that was made a little higher.
    const SCREEN: usize = 45;

    #[test]
    fn the_short_help_of_every_command_is_one_screen_and_the_long_one_has_all() {
        let mut command = Cli::command();
        command.build();
        let mut commands: Vec<_> = command.get_subcommands().cloned().collect();
        commands.push(command);
        for mut command in commands {
            let short = command.render_help().to_string();
            let long = command.render_long_help().to_string();
            let name = command.get_name();
            assert!(short.lines().count() <= SCREEN, "{name}: {short}");
            assert!(!short.contains(EXPERT), "{name}: {short}");
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            let options = shown.filter_map(clap::Arg::get_long);
            let missing: Vec<_> =
                options.filter(|option| !long.contains(&format!("--{option}"))).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
        let long = Cli::command().render_long_help().to_string();
        let (usual, expert) = long.split_once("\nExpert options:\n").unwrap();
        assert!(usual.contains("--duration") && !usual.contains("--unwind"), "{usual}");
        assert!(expert.contains("--unwind <HOW>") && expert.contains("--loader <HOW>"), "{expert}");
    }

    #[test]
    fn a_process_is_given_by_a_bare_pid_or_name() {
        let word = |line: &[&str]| Cli::try_parse_from(line).map(|cli| cli.attach.which.word);
        assert_eq!(word(&["heapattach", "4711"]).unwrap().as_deref(), Some("4711"));
        assert_eq!(
            word(&["heapattach", "redis-server", "--all"]).unwrap().as_deref(),
            Some("redis-server")
        );
        assert!(word(&["heapattach", "4711", "-p", "4712"]).is_err());
        assert_eq!(word(&["heapattach", "status"]).unwrap(), None);
    }
}
