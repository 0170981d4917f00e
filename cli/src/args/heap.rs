//! `heapattach heap`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{EXPERT, choice::choice, json::JsonArg};
use crate::choose_process::WhichArgs;
use heapattach_session::{check::options::Snapshot, heap::HeapOptions};
use heapattach_text::quantity::parse_duration;
use heapattach_view::{Colour, HeapView};

const HEAP: &str = "\
Examples:
  heapattach heap -p 4711                 where did the memory go? as it is now, with what was there before
  heapattach heap redis-server --view arenas       sizes, pages, mappings
  heapattach heap --core core.4711        the same of a core file
  heapattach heap -p 4711 --json | jq .memory";

/// `heapattach heap`.
#[derive(Clone, Debug, Args)]
#[command(before_help = HEAP)]
pub struct HeapArgs {
    /// Of which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// Look at a core file instead (gcore's, the kernel's)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["word", "pid", "name", "cgroup", "container"])]
    pub core: Option<PathBuf>,
    /// The program that the core is of, if it is not where it was
    #[arg(hide_short_help = true, long, value_name = "PATH", requires = "core")]
    pub exe: Option<PathBuf>,
    /// What to show
    #[arg(long, default_value = "summary", value_parser = choice(HeapView::ALL, HeapView::name, HeapView::about))]
    pub view: HeapView,
    /// Print JSON instead; =FILE: write it to FILE
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = JsonArg::parser()
    )]
    pub json: Option<JsonArg>,
    /// Look for blocks that no pointer leads to, for --json, too: takes longer, and memory
    #[arg(hide_short_help = true, long)]
    pub unreachable: bool,
    /// How memory is read at one moment: by a clone of the process, or during a stop
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub snapshot: HeapSnapshotArg,
    /// How long the process may be stopped, as far as that is foreseen: for a clone of it, or for a look
    /// without one
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "250ms",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_pause: Duration,
    /// Colours
    #[arg(
        hide_short_help = true,
        long,
        value_name = "WHEN",
        default_value = "auto",
        value_parser = choice(Colour::ALL, Colour::name, |_| "")
    )]
    pub color: Colour,
    /// Look even if a seccomp filter cannot be suspended, or another version of heapattach left hooks
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub force: bool,
}

/// The value of `--snapshot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HeapSnapshotArg {
    /// Clone during the stop, and read the clone; where that is not possible, read during the stop
    #[default]
    Fork,
    /// Read during the stop
    Stop,
}

impl HeapArgs {
    /// Whether blocks that no pointer leads to are looked for.
    pub fn wants_unreachable(&self) -> bool {
        self.unreachable || self.view == HeapView::Unreachable
    }

    /// What the look is told.
    pub fn options(&self) -> HeapOptions {
        let snapshot = match self.snapshot {
            HeapSnapshotArg::Fork => Snapshot::Fork,
            HeapSnapshotArg::Stop => Snapshot::Stop,
        };
        let unreachable = self.wants_unreachable();
        HeapOptions { snapshot, max_pause: self.max_pause, unreachable }
    }
}
