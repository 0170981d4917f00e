//! `heapattach heap`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{EXPERT, choice::choice, json::JsonArg};
use crate::choose_process::WhichArgs;
use heapattach_session::{
    check::options::Snapshot,
    heap::{HeapFilter, HeapOptions, LookForWaste, Sizes, WhoHolds, WithHolders},
};
use heapattach_text::quantity::parse_duration;
use heapattach_view::{Colour, HeapView};

const HEAP: &str = "\
Examples:
  heapattach heap -p 4711                 where did the memory go? as it is now, with what was there before
  heapattach heap redis-server --view arenas       sizes, pages, mappings
  heapattach heap -p 4711 --view holders           what retains most; --who-holds Session: the paths to it
  heapattach heap --core core.4711        the same of a core file
  heapattach heap -p 4711 --json | jq .memory";

/// What holds the objects of a Go program: so many rows are told, and written to a file.
const GO_HOLDERS: usize = 5_000;
const MANY_GO_HOLDERS: usize = 200_000;

/// So long the first screen looks for waste.
const BRIEFLY: Duration = Duration::from_secs(2);

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
    /// Tell the paths from roots to the block with this address, or to the blocks of a class
    #[arg(long, value_name = "TYPE|0xADDRESS")]
    pub who_holds: Option<WhoHolds>,
    /// --view tree: what holds the blocks, top down
    #[arg(hide_short_help = true, long, conflicts_with = "who_holds")]
    pub tree: bool,
    /// Only blocks of classes with this in their names (--view holders, unreachable)
    #[arg(hide_short_help = true, long = "type", value_name = "TYPE")]
    pub class: Option<String>,
    /// Only blocks of such sizes: 4K..1M, 64.., 24 (--view holders, unreachable)
    #[arg(hide_short_help = true, long, value_name = "RANGE")]
    pub size: Option<Sizes>,
    /// Only what roots with this in their names hold (--view holders)
    #[arg(hide_short_help = true, long, value_name = "ROOT")]
    pub held_by: Option<String>,
    /// Write what holds the objects of a Go program to FILE, for `go tool pprof`, in goref's form
    #[arg(hide_short_help = true, short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
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
    /// How long the bytes of blocks are looked at (--view waste); what there was no time for is told
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "20s",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub waste_limit: Duration,
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
        let filter = HeapFilter {
            class: self.class.clone(),
            size: self.size.clone(),
            held_by: self.held_by.clone(),
        };
        let holders = match self.view() {
            HeapView::Holders | HeapView::Tree => WithHolders::Yes,
            HeapView::Summary if self.json.is_none() => WithHolders::IfSmall,
            _ => WithHolders::No,
        };
        let waste = match self.view() {
            HeapView::Waste => Some(LookForWaste { limit: self.waste_limit, if_small: false }),
            HeapView::Summary if self.json.is_none() => {
                Some(LookForWaste { limit: self.waste_limit.min(BRIEFLY), if_small: true })
            }
            _ => None,
        };
        let (max_pause, who_holds) = (self.max_pause, self.who_holds.clone());
        let go_holders = if self.output.is_some() { MANY_GO_HOLDERS } else { GO_HOLDERS };
        HeapOptions {
            snapshot,
            max_pause,
            unreachable,
            holders,
            filter,
            who_holds,
            go_holders,
            waste,
            typed: self.view() == HeapView::Types,
        }
    }

    /// What is requested that needs a process.
    pub fn not_of_a_core(&self) -> Option<&'static str> {
        match self.view() {
            HeapView::Holders | HeapView::Tree => Some("what holds blocks"),
            HeapView::Go => Some("the heap of Go"),
            _ if self.output.is_some() => Some("a file for other programs"),
            _ => None,
        }
    }

    /// What is shown.
    pub fn view(&self) -> HeapView {
        match (self.tree, &self.who_holds) {
            (true, _) => HeapView::Tree,
            (false, Some(_)) => HeapView::Holders,
            (false, None) => self.view,
        }
    }
}
