//! The options of a check: plain values, which know no command line.

use std::time::Duration;

use heapattach_injector::attach::{Loader, Options, Service, WAITS, Wish};
use heapattach_reach::{Kind, RootSet};

use crate::watch::options::HookOptions;

/// Binary logarithm of the slots of a ring: as every block is recorded, there are many records.
const RING_BITS: u32 = 15;

/// What a check is told.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How long to record before the check, if not until the end.
    pub duration: Option<Duration>,
    /// How often to check before that.
    pub every: Option<Duration>,
    /// What was allocated before so much time was over is not judged.
    pub warmup: Option<Duration>,
    /// When to check a program that is started.
    pub when: When,
    /// Whether processes that are forked are checked, too.
    pub follow_forks: bool,
    /// How many processes at most.
    pub max_processes: usize,
    /// Names of programs that run unchecked.
    pub skip: Vec<String>,
    /// How memory is kept as it was.
    pub snapshot: Snapshot,
    /// How long the check may stop a process that is to go on.
    pub max_pause: Duration,
    /// How long a stop may be foreseen to take.
    pub max_stop: Duration,
    /// Whether it is to be told if the heap grows.
    pub growth: bool,
    /// Where pointers count.
    pub roots: RootSet,
    /// Whether that was chosen, and is no default.
    pub roots_are_chosen: bool,
    /// Whether pointers count at any byte, not only at every eighth.
    pub unaligned: bool,
    /// Whose blocks are told with who holds them: a function, or `top`.
    pub retained_by: Option<String>,
    /// Where it is hooked, and what is told of a call.
    pub hooks: HookOptions,
    /// Kinds of blocks that are told one by one.
    pub told: Vec<Kind>,
    /// Whether hooked functions, stacks and sums are told as well.
    pub functions: bool,
    /// Whether suppressions that the program was built with count.
    pub embedded_rules: bool,
    /// Whether those count that heapattach was built with.
    pub built_in_rules: bool,
}

/// When a program that is started is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the program ends.
    Exit,
    /// When it calls `exit`, or returns from `main`.
    ExitStart,
    /// When it asks to become another program.
    Exec,
    /// When it is sent this signal.
    Signal(i32),
}

/// How memory is kept as it was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// What is small is copied, what is large is cloned.
    Auto,
    /// It is looked at while the process is stopped.
    Stop,
    /// It is copied, and looked at then.
    Copy,
    /// The process is cloned, and the clone looked at.
    Fork,
    /// It is copied while the process runs, and again what was written meanwhile.
    Early,
}

impl CheckOptions {
    /// What the engine is told.
    pub fn for_engine(&self) -> Options {
        Options {
            mode: self.hooks.mode,
            max_memory: 0,
            interval: 1,
            ring_bits: RING_BITS,
            ring_patience: WAITS,
            map_patience: WAITS,
            pages: true,
            tables: true,
            copies: false,
            most_frames: self.hooks.max_depth,
            verify: 0,
            asked: self.hooks.asked(),
            python: Wish::Auto,
            loader: Loader::Map,
            max_stop: self.max_stop,
            force: false,
            service: Service::Checks,
            cache: self.hooks.cache,
        }
    }
}
