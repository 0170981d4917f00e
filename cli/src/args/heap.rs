//! `heapattach heap`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};

use super::{EXPERT, choice::choice, form::MomentForm, json::JsonArg};
use crate::choose_process::WhichArgs;
use heapattach_session::{
    check::options::Snapshot,
    heap::{ArenaWanted, HeapFilter, HeapOptions, LookForWaste, Sizes, WhoHolds, WithHolders},
};
use heapattach_text::quantity::parse_duration;
use heapattach_view::{Colour, HeapView};

const HEAP: &str = "\
Examples:
  heapattach heap -p 4711                 where did the memory go? as it is now, with what was there before
  heapattach heap redis-server --view arenas       sizes, pages, mappings
  heapattach heap -p 4711 --view holders           what retains most; --who-holds Session: the paths to it
  heapattach heap --core core.4711        the same of a core file
  heapattach heap -p 4711 -o a.heapattach-moment   for report and diff; .pb.gz: for go tool pprof
  heapattach heap -p 4711 --json | jq .memory";

/// What holds the objects of a Go program: so many rows are kept, in a file of a moment, and in a profile.
const GO_HOLDERS: usize = 5_000;
const IN_A_MOMENT: usize = 20_000;
const IN_A_PROFILE: usize = 200_000;

/// Bytes of a block that are told, at most.
const MOST_CONTENTS: i64 = 256;

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
    /// --view arenas of one: its sizes, classes, pages and waste; its number, or main
    #[arg(hide_short_help = true, long, value_name = "N", conflicts_with_all = ["who_holds", "tree"])]
    pub arena: Option<String>,
    /// --view not-written: blocks whose pages were never written, by class and size
    #[arg(hide_short_help = true, long, conflicts_with_all = ["who_holds", "tree", "arena"])]
    pub not_written: bool,
    /// Watch for TIME what is written, and tell the blocks that were not, by class and size: a short stop more; the
    /// first write to each page takes some us longer meanwhile
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        conflicts_with_all = ["who_holds", "tree", "arena", "core", "not_written"]
    )]
    pub cold: Option<Duration>,
    /// Tell the first N bytes of blocks (at most 256), of leaked ones with --view unreachable. Off unless you ask:
    /// contents are private
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=MOST_CONTENTS)
    )]
    pub show_contents: Option<u16>,
    /// Write the moment to FILE, by its ending: .heapattach-moment, for report and diff; .pb.gz, what holds the
    /// blocks, for `go tool pprof`; .collapsed; .html, a page for browsers; .json
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave the command line out of FILE
    #[arg(hide_short_help = true, long, requires = "output")]
    pub redact: bool,
    /// How memory is read at one moment: by a clone of the process, during a stop, or by an early copy
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
    /// fork, and early where a clone would stop the process for longer than --max-pause
    #[default]
    Auto,
    /// Clone during the stop, and read the clone; where that is not possible, read during the stop
    Fork,
    /// Read during the stop
    Stop,
    /// Copy while the process runs, and during the stop only what was written meanwhile; takes as much memory
    /// as the process
    Early,
}

impl HeapArgs {
    /// Whether blocks that no pointer leads to are looked for.
    pub fn wants_unreachable(&self) -> bool {
        self.unreachable || self.view == HeapView::Unreachable
    }

    /// What the look is told.
    pub fn options(&self) -> HeapOptions {
        let snapshot = match self.snapshot {
            HeapSnapshotArg::Auto => Snapshot::Auto,
            HeapSnapshotArg::Fork => Snapshot::Fork,
            HeapSnapshotArg::Stop => Snapshot::Stop,
            HeapSnapshotArg::Early => Snapshot::Early,
        };
        let unreachable = self.wants_unreachable();
        let filter = HeapFilter {
            class: self.class.clone(),
            size: self.size.clone(),
            held_by: self.held_by.clone(),
        };
        let form = self.form();
        let shown = match self.view() {
            HeapView::Holders | HeapView::Tree => WithHolders::Yes,
            HeapView::Summary if self.json.is_none() => WithHolders::IfSmall,
            _ => WithHolders::No,
        };
        let shows_types = matches!(self.view(), HeapView::Types | HeapView::Cold);
        // A profile of paths has nothing else; a file of a moment has all views.
        let is_of_paths = form.is_some_and(MomentForm::is_of_holders);
        let is_whole = form.is_some() && !is_of_paths;
        let holders = match shown {
            _ if is_of_paths => WithHolders::Yes,
            WithHolders::No if is_whole => WithHolders::IfSmall,
            shown => shown,
        };
        let waste = match self.view() {
            HeapView::Waste => Some(LookForWaste { limit: self.waste_limit, if_small: false }),
            _ if is_whole => Some(LookForWaste { limit: self.waste_limit, if_small: true }),
            HeapView::Summary if self.json.is_none() => {
                Some(LookForWaste { limit: self.waste_limit.min(BRIEFLY), if_small: true })
            }
            _ => None,
        };
        let (max_pause, who_holds) = (self.max_pause, self.who_holds.clone());
        let go_holders = match form {
            None | Some(MomentForm::Json) => GO_HOLDERS,
            Some(MomentForm::Moment | MomentForm::Html) => IN_A_MOMENT,
            Some(MomentForm::Pprof | MomentForm::Collapsed) => IN_A_PROFILE,
        };
        HeapOptions {
            snapshot,
            max_pause,
            unreachable,
            holders,
            filter,
            who_holds,
            go_holders,
            for_paths: is_of_paths.then_some((shown, shows_types)),
            waste,
            pins: self.view() == HeapView::Pins || is_whole,
            arena: self.arena.clone().map(|name| ArenaWanted { name, limit: self.waste_limit }),
            not_written: self.view() == HeapView::NotWritten || is_whole,
            cold: self.cold,
            show_contents: self.show_contents.map(usize::from),
            recorded: None,
            typed: shows_types || form.is_some(),
        }
    }

    /// What is requested that no file of a moment has.
    pub fn not_of_a_moment(&self) -> Option<&'static str> {
        match (&self.arena, self.show_contents) {
            (Some(_), _) => Some("--arena"),
            (None, Some(_)) => Some("--show-contents"),
            (None, None) => None,
        }
    }

    /// The file of a moment, if that was named in the place of a process.
    pub fn moment_file(&self) -> Option<&Path> {
        let word = Path::new(self.which.word.as_ref()?);
        let is_named_so = MomentForm::of(word) == Some(MomentForm::Moment);
        (is_named_so || heapattach_moment::is_moment(word)).then_some(word)
    }

    /// In which form the moment is written. A profile if the name says nothing else.
    pub fn form(&self) -> Option<MomentForm> {
        let of = |path: &PathBuf| MomentForm::of(path).unwrap_or(MomentForm::Pprof);
        self.output.as_ref().map(of)
    }

    /// What of the command line makes no sense with the file that is to be written.
    pub fn not_in_a_file(&self) -> Option<String> {
        let filters = [
            (self.class.is_some(), "--type"),
            (self.size.is_some(), "--size"),
            (self.held_by.is_some(), "--held-by"),
            (self.arena.is_some(), "--arena"),
            (self.show_contents.is_some(), "--show-contents: files of moments have no contents"),
            (
                self.who_holds.is_some()
                    && matches!(self.form(), Some(MomentForm::Moment | MomentForm::Html)),
                "--who-holds",
            ),
        ];
        let (_, option) = filters.into_iter().find(|(is_given, _)| *is_given)?;
        self.output.as_ref()?;
        Some(format!("a file has all of the moment (-o FILE); leave out {option}"))
    }

    /// What of the command line the view does not answer.
    pub fn not_in_view(&self) -> Option<String> {
        let filters = [
            (self.class.is_some(), "--type"),
            (self.size.is_some(), "--size"),
            (self.held_by.is_some(), "--held-by"),
        ];
        let (_, option) = filters.into_iter().find(|(is_given, _)| *is_given)?;
        let is_whole = self.view() == HeapView::Go;
        is_whole.then(|| {
            format!("--view go tells all objects; need --view holders or --tree for {option}")
        })
    }

    /// What is shown.
    pub fn view(&self) -> HeapView {
        match (self.tree, &self.who_holds) {
            (true, _) => HeapView::Tree,
            (false, Some(_)) => HeapView::Holders,
            (false, None) if self.arena.is_some() => HeapView::Arenas,
            (false, None) if self.not_written => HeapView::NotWritten,
            (false, None) if self.cold.is_some() && self.view == HeapView::Summary => {
                HeapView::Cold
            }
            (false, None) => self.view,
        }
    }
}
