//! What a session is asked to do.

use std::time::Duration;

use heapattach_abi::stacks::USUAL_FRAMES;
use heapattach_entry::user_hooks::UserHooks;

use crate::hook::{
    plan::{HookMode, Wishes},
    survey::Survey,
};
use crate::{scripts, trace::target::Target};
use heapattach_process::proc::maps::Mapping;

/// The longest stop that is not asked for.
const USUAL_STOP: Duration = Duration::from_secs(1);

/// How often a thread looks for room in a full ring before it gives up: some seconds.
pub const WAITS: u32 = 250_000_000;

/// How the payload gets into the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loader {
    /// We map it.
    #[default]
    Map,
    /// The target loads it.
    Dlopen,
}

/// What is done with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Nothing: they are not read.
    None,
    /// Marks are taken; no thread waits.
    Marks,
    /// Checks are made when they are asked for.
    Checks,
}

/// What the user asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How to hook.
    pub mode: HookMode,
    /// The most memory that may be added to the target; 0: no limit.
    pub max_memory: u64,
    /// Mean bytes between samples; 1 records every block.
    pub interval: u64,
    /// Binary logarithm of the slots of a ring.
    pub ring_bits: u32,
    /// How often a thread looks again for room in a full ring.
    pub ring_patience: u32,
    /// The same for records of mappings.
    pub map_patience: u32,
    /// Hook mmap and its family too.
    pub pages: bool,
    /// Follow stacks by tables; else by frame pointers.
    pub tables: bool,
    /// Frames of a stack that are recorded.
    pub most_frames: u32,
    /// Have stacks of unknown bounds copied by the kernel: a system call of the target's.
    pub copies: bool,
    /// Of so many stacks one is walked twice, to verify what makes walks fast; 0: none.
    pub verify: u32,
    /// How the payload gets into the target.
    pub loader: Loader,
    /// The longest that the first stop may be foreseen to take; later ones cannot be refused.
    pub max_stop: Duration,
    /// Have it loaded although a filter may forbid the target's loader its calls.
    pub force: bool,
    /// Functions that the user named.
    pub asked: UserHooks,
    /// Whether to walk Python frames.
    pub python: scripts::Wish,
    /// What is done with what the program asks for by `heapattach.h`.
    pub service: Service,
    /// Whether what was made for other sessions may be used, and kept for them.
    pub cache: bool,
}

impl Options {
    /// What is usual.
    pub fn sampling(mode: HookMode) -> Self {
        Self {
            mode,
            max_memory: 0,
            interval: 512 << 10,
            ring_bits: 11,
            ring_patience: 0,
            map_patience: WAITS,
            pages: true,
            tables: true,
            most_frames: USUAL_FRAMES,
            verify: 0,
            copies: false,
            loader: Loader::Map,
            max_stop: USUAL_STOP,
            force: false,
            asked: UserHooks::default(),
            python: scripts::Wish::Auto,
            service: Service::None,
            cache: false,
        }
    }

    /// What is to be hooked, and how. Rights to pages are of interest where frames of scripts are read directly.
    pub(crate) fn wishes(&self, survey: &Survey, target: &Target, maps: &[Mapping<'_>]) -> Wishes {
        let has_scripts = || scripts::recognise(survey, &target.memory, maps).is_some();
        let rights = self.python != scripts::Wish::Off && has_scripts();
        Wishes { mode: self.mode, pages: self.pages, rights, asked: self.asked }
    }
}
