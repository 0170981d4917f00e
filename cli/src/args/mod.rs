//! What the user typed: one file a command, and one for each group of options that several share.

mod attach;
mod check;
mod choice;
mod completions;
mod detach;
mod diff;
mod doctor;
mod file_format;
mod hooks;
pub mod json;
mod limits;
mod look;
mod man;
mod moment;
mod outlet;
mod quiet;
mod record;
mod report;
mod roots;
mod run;
mod session;
mod status;

pub use attach::{AttachArgs, LoaderArg};
pub use check::CheckArgs;
pub use completions::{CompletionsArgs, Shell};
pub use detach::DetachArgs;
pub use diff::DiffArgs;
pub use doctor::DoctorArgs;
pub use file_format::FileFormat;
pub use look::LookArgs;
pub use man::ManArgs;
pub use outlet::GithubArg;
pub use report::ReportArgs;
pub use run::RunArgs;
pub use status::StatusArgs;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  heapattach -p 4711 --duration 60s      who holds the memory of a running process? for a minute
  heapattach -p 4711                     the same until Ctrl-C
  heapattach -p 4711 --follow            who holds most, every five seconds; SIGUSR1 marks a moment
  heapattach --name redis-server         also --cgroup redis.service, --container 4f1c8a2b
  heapattach run -- ./server --port 80   from the first instruction on
  heapattach check -- ./tests            which blocks does it lose? 23 if any
  heapattach report FILE                 look at a recording again: trees, pictures, other tools
  heapattach diff A B                    what became different between two of them
  heapattach doctor -p 4711              what would be done to it; touches nothing
  heapattach status                      sessions, and what killed ones left
  heapattach detach -p 4711              clean up what a killed one left

The hooks are mapped from outside, not loaded with dlopen: a remote dlopen can deadlock the target.
For those who want them to be a shared object all the same, there is --loader dlopen.";

/// Tells what the memory of a live process is doing, and leaves the process as it was.
#[derive(Debug, Parser)]
#[command(name = "heapattach", version, before_help = EXAMPLES, args_conflicts_with_subcommands = true)]
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
    /// Start a program and count from its first instruction
    Run(Box<RunArgs>),
    /// Find blocks that nobody can get at any more
    Check(Box<CheckArgs>),
    /// Show a recording, or write it for another program
    Report(Box<ReportArgs>),
    /// Show what became different between two recordings, or two moments of one
    Diff(Box<DiffArgs>),
    /// Say what would be done to a process, without touching it
    Doctor(DoctorArgs),
    /// List sessions, and what killed ones left
    Status(StatusArgs),
    /// Clean up what a killed heapattach left in a process
    Detach(DetachArgs),
    /// Print what a shell needs to complete command lines
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all commands into a folder
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
