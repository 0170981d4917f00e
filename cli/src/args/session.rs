//! The options that all sessions share, whichever subcommand begins them.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use heapattach_abi::ring::SLOT_BYTES;
use heapattach_injector::attach::{Loader, Wish};

use super::{
    hooks::HookArgs,
    json::{self, JsonArg},
    record::RecordArgs,
};
use heapattach_session::watch::options::{OnFull, Unwind, WatchOptions};
use heapattach_text::quantity::{parse_duration, parse_size};

/// What a session is told.
#[derive(Clone, Debug, Args)]
pub struct SessionArgs {
    /// How long to count: 300ms, 5s, 10m, 1h [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Where it is hooked, and what is told of a call.
    #[command(flatten)]
    pub hooks: HookArgs,
    /// Record a sample in so many bytes on average; blocks of that size are always recorded
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512KiB",
        value_parser = parse_interval,
        allow_hyphen_values = true
    )]
    pub every: u64,
    /// Record every block; exact, and dearer
    #[arg(long, conflicts_with = "every")]
    pub all: bool,
    /// Count blocks by size, older ones too when they go, to tell what grows from what comes and goes;
    /// only glibc's allocator can be asked
    #[arg(long)]
    pub flow: bool,
    /// Leave mmap, munmap and mremap alone
    #[arg(long)]
    pub no_mmap: bool,
    /// What a thread does that finds its ring full: `drop` the record and count the loss, `slow`
    /// down by sampling less, or `wait` for a while [default: drop, wait with run --all]. Records of
    /// mmap and its family always wait
    #[arg(long, value_enum, value_name = "WHAT")]
    pub on_full: Option<OnFullArg>,
    /// Size of a ring; there are 64, and only what is used takes memory [default: 64KiB, 1MiB with
    /// --all]
    #[arg(long, value_name = "SIZE", value_parser = parse_ring, allow_hyphen_values = true)]
    pub ring: Option<u32>,
    /// How stacks are followed
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub unwind: UnwindArg,
    /// Of so many stacks one is followed twice, to verify what makes it fast; the report says how
    /// many differed
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub verify: u32,
    /// Whether to find out which Python functions (CPython 3.11 and later) ask for memory: `auto`
    /// does not where system calls are filtered, as it makes one or two at each recorded allocation
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub python: PythonArg,
    /// Write every distinct stack of allocations there, as bare addresses; those of what the process
    /// was last
    #[arg(long, value_name = "FILE")]
    pub stacks: Option<PathBuf>,
    /// How it is written down.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Print the report as JSON: of `run`, whose standard output is the program's, to standard error,
    /// where nothing else of ours goes then, or to --report; or write it to FILE beside the text
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = JsonArg::parser()
    )]
    pub json: Option<JsonArg>,
    /// Detach when counting takes more of the target's CPU time than this many percent (estimated)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    pub max_overhead: Option<f64>,
    /// Add no more memory to the target than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_memory: Option<u64>,
    /// How long stopping all threads to attach may take, as foreseen from their number and the load;
    /// beyond that attaching is refused. What follows is not: what was begun is undone
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_stop: Duration,
    /// Look at every process that is forked meanwhile, too, and at the programs they become. They
    /// are traced for as long as that lasts: signals, threads and forks cost them more
    #[arg(long)]
    pub follow_forks: bool,
    /// Look at no more processes than this; those that come later are only counted
    #[arg(
        long,
        value_name = "N",
        default_value_t = 256,
        requires = "follow_forks",
        value_parser = parse_processes,
        allow_hyphen_values = true
    )]
    pub max_processes: usize,
}

/// The value of `--on-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFullArg {
    /// Drop and count
    Drop,
    /// Sample less
    Slow,
    /// Wait, some seconds at most
    Wait,
}

/// The value of `--unwind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnwindArg {
    /// By tables, and by frame pointers where there are none
    #[default]
    Auto,
    /// By frame pointers: for code without unwind information
    FramePointer,
    /// By tables, and stacks of coroutines and signal handlers too, which the kernel copies: a system
    /// call of the program's own, so not for one that forbids itself some of them
    Copy,
}

/// The value of `--python`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PythonArg {
    /// Unless system calls are filtered
    #[default]
    Auto,
    /// In any case
    On,
    /// No
    Off,
}

impl From<OnFullArg> for OnFull {
    fn from(arg: OnFullArg) -> Self {
        match arg {
            OnFullArg::Drop => Self::Drop,
            OnFullArg::Slow => Self::Slow,
            OnFullArg::Wait => Self::Wait,
        }
    }
}

impl From<UnwindArg> for Unwind {
    fn from(arg: UnwindArg) -> Self {
        match arg {
            UnwindArg::Auto => Self::Auto,
            UnwindArg::FramePointer => Self::FramePointer,
            UnwindArg::Copy => Self::Copy,
        }
    }
}

impl From<PythonArg> for Wish {
    fn from(arg: PythonArg) -> Self {
        match arg {
            PythonArg::Auto => Self::Auto,
            PythonArg::On => Self::On,
            PythonArg::Off => Self::Off,
        }
    }
}

impl SessionArgs {
    /// What a session is told.
    pub fn watch_options(&self) -> WatchOptions {
        WatchOptions {
            duration: self.duration,
            hooks: self.hooks.options(),
            interval: if self.all { 1 } else { self.every },
            flow: self.flow,
            pages: !self.no_mmap,
            on_full: self.on_full.map_or(OnFull::Drop, OnFull::from),
            ring_bits: self.ring,
            unwind: self.unwind.into(),
            verify: self.verify,
            python: self.python.into(),
            record: self.record.options(self.records_by_default()),
            max_overhead: self.max_overhead,
            max_memory: self.max_memory,
            max_stop: self.max_stop,
            follow_forks: self.follow_forks,
            max_processes: self.max_processes,
            loader: Loader::Map,
            force: false,
        }
    }

    /// The same session of a program that is started for it: what is to be exact may take its time.
    #[must_use]
    pub fn of_own_program(mut self) -> Self {
        if self.all {
            self.on_full.get_or_insert(OnFullArg::Wait);
        }
        self
    }

    /// Whether to write a recording although the user has named no file.
    pub fn records_by_default(&self) -> bool {
        self.record.output.is_none()
            && !self.record.no_record
            && !json::is_instead(self.json.as_ref())
    }
}

/// Each takes threads, descriptors and memory of ours.
const MOST_PROCESSES: usize = 4096;

/// A number of processes to look at.
pub fn parse_processes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_PROCESSES).contains(number));
    number.ok_or_else(|| format!("`{text}` is not 1 to {MOST_PROCESSES}"))
}

fn parse_interval(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    let limit = 1 << 40;
    if (1..=limit).contains(&size) { Ok(size) } else { Err(format!("`{text}` is not 1 to 1TiB")) }
}

/// Binary logarithm of the slots of a ring.
fn parse_ring(text: &str) -> Result<u32, String> {
    let slots = parse_size(text)? / SLOT_BYTES as u64;
    let bits = slots.checked_ilog2().unwrap_or(0);
    let is_sound = (7..=18).contains(&bits);
    is_sound.then_some(bits).ok_or_else(|| format!("`{text}` is not 4KiB to 8MiB"))
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|n| n.is_finite() && (0.0..=100.0).contains(n))
        .ok_or_else(|| format!("`{text}` is not a percentage"))
}
