//! `heapattach -p PID`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use heapattach_injector::attach::Loader;

use super::{EXPERT, session::SessionArgs};
use crate::choose_process::WhichArgs;
use heapattach_session::{
    check::options::Snapshot,
    heap::{HeapFilter, HeapOptions, WithHolders},
    recorded::RecordedBlocks,
    watch::options::WatchOptions,
};
use heapattach_text::quantity::parse_duration;

/// What holds the objects of a Go program: so many rows are kept.
const GO_HOLDERS: usize = 20_000;

/// `heapattach -p PID`.
#[derive(Clone, Debug, Args)]
pub struct AttachArgs {
    /// To which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// How it is done.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Tell what all memory is before the session and after it, too, and what grew by class, size and holder;
    /// both moments are kept beside the recording
    #[arg(hide_short_help = true, long, conflicts_with = "follow_forks")]
    pub census: bool,
    /// How long the process may be stopped for each moment of --census, as far as that is foreseen
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "250ms",
        value_parser = parse_duration,
        allow_hyphen_values = true,
        requires = "census"
    )]
    pub max_pause: Duration,
    /// Of --census: watch for TIME after the session what is written, and tell what was not, by class and by who
    /// allocated it
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        requires_all = ["census", "duration"]
    )]
    pub cold: Option<Duration>,
    /// How the hooks get into the process. `map` needs no code of the process. A forced dlopen can
    /// deadlock, depending on where the thread is; `dlopen` waits for a thread at a safe place
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub loader: LoaderArg,
    /// Attach even if a seccomp filter cannot be suspended or applies to the process's own loader, or
    /// if another version of heapattach left hooks; and overwrite the file of -o
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub force: bool,
}

impl AttachArgs {
    /// How the moments before and after the session are taken; blocks of it are looked for in the second.
    pub fn heap_options(&self, recorded: Option<RecordedBlocks>) -> HeapOptions {
        HeapOptions {
            snapshot: Snapshot::Auto,
            max_pause: self.max_pause,
            unreachable: false,
            holders: WithHolders::IfSmall,
            filter: HeapFilter::default(),
            who_holds: None,
            go_holders: GO_HOLDERS,
            for_paths: None,
            waste: None,
            arena: None,
            not_written: false,
            cold: self.cold,
            show_contents: None,
            pins: false,
            recorded,
            typed: true,
        }
    }

    /// What the session is told.
    pub fn watch_options(&self) -> WatchOptions {
        let (loader, force) = (self.loader.into(), self.force);
        WatchOptions { loader, force, ..self.session.watch_options() }
    }
}

/// The value of `--loader`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LoaderArg {
    /// Mapped from outside, by a few system calls
    #[default]
    Map,
    /// Loaded by the process itself, at the entry of an allocation function: a shared object that
    /// its loader and debuggers know
    Dlopen,
}

impl From<LoaderArg> for Loader {
    fn from(arg: LoaderArg) -> Self {
        match arg {
            LoaderArg::Map => Self::Map,
            LoaderArg::Dlopen => Self::Dlopen,
        }
    }
}
