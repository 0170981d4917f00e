//! The options of a session: plain values, which know no command line.

use std::{path::PathBuf, time::Duration};

use heapattach_entry::{functions::Function, user_hooks::UserHooks};
use heapattach_injector::attach::{HookMode, Loader, Options, Service, WAITS, Wish};
use heapattach_symbols::demangle;

/// Binary logarithm of the slots of a ring that takes every block.
const RING_BITS: u32 = 15;
/// And of one that takes samples.
const RING_BITS_OF_SAMPLES: u32 = 13;

/// What a session is told.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// How long to count, if not until the end.
    pub duration: Option<Duration>,
    /// Where it is hooked, and what is told of a call.
    pub hooks: HookOptions,
    /// Mean bytes between samples; with 1 every block is recorded.
    pub interval: u64,
    /// Whether blocks are counted by size.
    pub flow: bool,
    /// Whether `mmap` and its family are hooked.
    pub pages: bool,
    /// What a thread does that finds its ring full.
    pub on_full: OnFull,
    /// Binary logarithm of the slots of a ring, if it was chosen.
    pub ring_bits: Option<u32>,
    /// How stacks are followed.
    pub unwind: Unwind,
    /// Of so many stacks one is followed twice; 0 is none.
    pub verify: u32,
    /// Whether Python frames are walked.
    pub python: Wish,
    /// How it is written down.
    pub record: RecordOptions,
    /// What it waits for.
    pub triggers: TriggerOptions,
    /// Percent of the target's processor time that counting may take.
    pub max_overhead: Option<f64>,
    /// Bytes that may be added to the target.
    pub max_memory: Option<u64>,
    /// How long a stop may be foreseen to take.
    pub max_stop: Duration,
    /// Whether processes that are forked are looked at, too.
    pub follow_forks: bool,
    /// How many processes at most.
    pub max_processes: usize,
    /// How the payload gets into a process that runs.
    pub loader: Loader,
    /// Attach although something speaks against it that the user knows of.
    pub force: bool,
}

/// Where to hook, and how much of a stack is told.
#[derive(Clone, Debug)]
pub struct HookOptions {
    /// How functions are hooked.
    pub mode: HookMode,
    /// Functions of the program's own.
    pub asked: Vec<Function>,
    /// Frames of a stack that are recorded.
    pub max_depth: u32,
    /// Names that are looked past when looking for the function that allocated.
    pub hide_frames: Vec<String>,
    /// Whether functions are shown with their whole names.
    pub full_names: bool,
    /// Whether what was found out about builds of modules is used and kept.
    pub cache: bool,
}

/// How a session is written down.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The file that was named.
    pub output: Option<PathBuf>,
    /// How the name of a file begins that was not named.
    pub prefix: Option<PathBuf>,
    /// Whether a file is to be left behind that was not named.
    pub is_by_default: bool,
    /// Whether the command line of the process is left out.
    pub redact: bool,
    /// Whether names are written down, too.
    pub names: bool,
    /// About how large the file may become.
    pub max_size: u64,
    /// How often a moment is marked.
    pub mark_every: Option<Duration>,
    /// A moment is marked when so much more is in use.
    pub mark_on_growth: Option<u64>,
    /// Or when more is in use than ever before.
    pub mark_on_peak: bool,
    /// Or each time so much was allocated.
    pub mark_every_allocated: Option<u64>,
}

/// What a session waits for, besides its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct TriggerOptions {
    /// It ends when so much memory is resident.
    pub until_rss: Option<u64>,
    /// Growth of memory.
    pub growth: Option<GrowthOptions>,
}

/// Growth that is told when it is certain.
#[derive(Clone, Copy, Debug)]
pub struct GrowthOptions {
    /// So many bytes a minute, or more.
    pub rate: u64,
    /// Over so long.
    pub window: Duration,
    /// Whether the session ends with it.
    pub ends: bool,
}

/// What a thread does that finds its ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Drops the record; that is counted.
    Drop,
    /// Drops it, and fewer are made from then on.
    Slow,
    /// Waits, some seconds at most.
    Wait,
}

/// How stacks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwind {
    /// By tables, and by frame pointers where there are none.
    Auto,
    /// By frame pointers.
    FramePointer,
    /// By tables, and stacks of coroutines and signal handlers too, which the kernel copies.
    Copy,
}

impl WatchOptions {
    /// Whether every block is recorded.
    pub fn is_exact(&self) -> bool {
        self.interval <= 1
    }

    /// What the engine is told.
    pub fn for_engine(&self) -> Options {
        let usual_bits = if self.is_exact() { RING_BITS } else { RING_BITS_OF_SAMPLES };
        Options {
            mode: self.hooks.mode,
            max_memory: self.max_memory.unwrap_or(0),
            interval: self.interval,
            ring_bits: self.ring_bits.unwrap_or(usual_bits),
            ring_patience: if self.on_full == OnFull::Wait { WAITS } else { 0 },
            map_patience: WAITS,
            pages: self.pages,
            tables: self.unwind != Unwind::FramePointer,
            copies: self.unwind == Unwind::Copy,
            most_frames: self.hooks.max_depth,
            verify: self.verify,
            loader: self.loader,
            max_stop: self.max_stop,
            force: self.force,
            asked: self.hooks.asked(),
            python: self.python,
            service: Service::Marks,
            cache: self.hooks.cache,
        }
    }
}

impl HookOptions {
    /// Functions of the program's own, by the names that they have in the source or in the file.
    pub fn asked(&self) -> UserHooks {
        UserHooks::new(self.asked.clone(), demangle::demangle)
    }
}
