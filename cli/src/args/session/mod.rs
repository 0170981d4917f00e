//! The options that all sessions share, whichever subcommand begins them.

mod hooks;
mod record;
mod tables;
mod triggers;

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use heapattach_abi::ring::SLOT_BYTES;
use heapattach_injector::attach::{Loader, Wish};

pub use hooks::{HookArg, HookArgs};
pub use tables::TablesArgs;

use super::{
    EXPERT,
    json::{self, JsonArg},
};
use crate::{config_file::ConfigArgs, terminal::Verbosity};
use heapattach_report::Report;
use heapattach_session::watch::options::{OnFull, Unwind, WatchOptions};
use heapattach_text::quantity::{parse_duration, parse_duration_or_none, parse_size};
use heapattach_view::{Page, session};
use record::RecordArgs;
use triggers::TriggerArgs;

/// What a session is told.
#[derive(Clone, Debug, Args)]
pub struct SessionArgs {
    /// How long: 300ms, 5s, 1h; 0: what Go knows now [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_or_none, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Where it is hooked, and what is told of a call.
    #[command(flatten)]
    pub hooks: HookArgs,
    /// Sample one block per SIZE bytes; larger ones always
    ///
    /// On average: the distances between samples are random.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512KiB",
        value_parser = parse_interval,
        allow_hyphen_values = true
    )]
    pub every: u64,
    /// Record every block: exact, at a higher overhead
    #[arg(long, conflicts_with = "every")]
    pub all: bool,
    /// Tell whether the heap grows, and whether that is a leak
    ///
    /// Counts blocks by size, also those from before the attach when they are freed (glibc, jemalloc,
    /// tcmalloc, mimalloc).
    #[arg(long)]
    pub flow: bool,
    /// Do not hook mmap, munmap, mremap, brk, sbrk, madvise and mprotect
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub no_mmap: bool,
    /// What a thread does if its ring is full: `drop` the record and count it, `slow` down by sampling
    /// less, or `wait` for some seconds at most [default: drop, wait with run --all]. Records of mmap
    /// and its family always wait
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, value_name = "WHAT")]
    pub on_full: Option<OnFullArg>,
    /// Size of a ring; there are 64, only used parts take memory [default: 256KiB, 1MiB with
    /// --all]
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "SIZE", value_parser = parse_ring, allow_hyphen_values = true)]
    pub ring: Option<u32>,
    /// How call stacks are unwound
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub unwind: UnwindArg,
    /// Unwind one stack in N twice, with and without caches; the report says how many differed
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub verify: u32,
    /// Whether to name functions of scripts (CPython 3.11 and later, PHP 7.4 to 8.4, Ruby 3.1, 3.3, Perl 5.36, 5.40,
    /// Lua 5.1 to 5.4, Node.js 18 to 24, Java 17, 21, 25) in stacks. This makes some system calls at each recorded allocation: `auto` leaves it out if system calls are filtered
    #[arg(help_heading = EXPERT, hide_short_help = true, long = "scripts", alias = "python", value_enum, default_value_t, value_name = "WHEN")]
    pub python: PythonArg,
    /// Write every distinct call stack of allocations to FILE, as bare addresses; after an exec, those
    /// of the last program
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "FILE")]
    pub stacks: Option<PathBuf>,
    /// How it is written down.
    #[command(flatten)]
    pub record: RecordArgs,
    /// What it waits for.
    #[command(flatten)]
    pub triggers: TriggerArgs,
    /// Print the report as JSON, or write it to FILE beside the text
    ///
    /// With `run` JSON goes to standard error (alone), or to --report.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = JsonArg::parser()
    )]
    pub json: Option<JsonArg>,
    /// Print only the verdict, and errors
    #[arg(hide_short_help = true, short, long)]
    pub quiet: bool,
    /// Detach when recording takes more than PERCENT of the target's CPU time (estimated)
    #[arg(hide_short_help = true, long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    pub max_overhead: Option<f64>,
    /// Add no more than SIZE of memory to the target
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_memory: Option<u64>,
    /// Refuse to attach if stopping all threads is expected to take longer, by their number and the
    /// load. Later stops are not refused: what was begun is undone
    #[arg(
        help_heading = EXPERT,
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_stop: Duration,
    /// Options of a file.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Attach to every process that it forks, too, and to what these exec
    ///
    /// They are traced meanwhile: signals, threads and forks cost them more.
    #[arg(long)]
    pub follow_forks: bool,
    /// Attach to at most N processes; later ones are only counted
    #[arg(
        hide_short_help = true,
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
    /// Drop the record and count it
    Drop,
    /// Sample less
    Slow,
    /// Wait, some seconds at most
    Wait,
}

/// The value of `--unwind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnwindArg {
    /// By unwind tables, and by frame pointers where there are none
    #[default]
    Auto,
    /// By frame pointers: for code without unwind information
    FramePointer,
    /// By unwind tables, and stacks of coroutines and signal handlers, too. It makes a system call in
    /// the program: not for programs with a seccomp filter
    Copy,
}

/// The value of `--scripts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PythonArg {
    /// Unless system calls are filtered
    #[default]
    Auto,
    /// Always
    On,
    /// Never
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
        let triggers = self.triggers.options();
        WatchOptions {
            duration: self.duration,
            hooks: self.hooks.options(),
            interval: if self.all { 1 } else { self.every },
            flow: self.flow || triggers.growth.is_some(),
            pages: !self.no_mmap,
            on_full: self.on_full.map_or(OnFull::Drop, OnFull::from),
            ring_bits: self.ring,
            unwind: self.unwind.into(),
            verify: self.verify,
            python: self.python.into(),
            record: self.record.options(self.records_by_default()),
            triggers,
            max_overhead: self.max_overhead,
            max_memory: self.max_memory,
            max_stop: self.max_stop,
            follow_forks: self.follow_forks,
            max_processes: self.max_processes,
            loader: Loader::Map,
            force: false,
        }
    }

    /// Why these options mean nothing together.
    pub fn misuse(&self) -> Option<String> {
        self.record.tables.misuse(self.record.output.as_deref())
    }

    /// How much is said while the session lasts.
    pub fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Errors } else { Verbosity::Usual }
    }

    /// The end of the session, as it is requested.
    pub fn tell(&self, report: &Report, page: Page) -> String {
        if self.quiet { session::verdict(report, page) } else { session::report(report, page) }
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
            && (self.record.output_prefix.is_some() || !json::is_instead(self.json.as_ref()))
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
        .ok_or_else(|| format!("`{text}` is not a percentage; need 0 to 100"))
}
