//! A moment that was looked through, and what is to be reported of it: the leaks that no rule suppresses.
//! Rules speak of names, and those are in files that a disk may be slow to give.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

use heapattach_injector::moment::Scene;
use heapattach_reach::{Block, Blocks, Checked, Look};
use heapattach_report::{LookReport, micros, suppression::Suppressions};
use heapattach_symbols::Symbols;

use super::{
    Inspection, allocators::older::Older, holders::Holders, live_heap::LiveHeap,
    suppressed::Suppressed,
};

/// A moment that was looked through: memory is not asked any more.
pub(super) struct Looked {
    pub(super) look: Look,
    pub(super) holders: Holders,
    pub(super) blocks: Blocks,
    /// Blocks from before the attach, if they are judged.
    pub(super) older: Option<Older>,
    pub(super) scene: Scene,
    pub(super) live_heap: LiveHeap,
    pub(super) is_complete: bool,
    pub(super) report: LookReport,
    pub(super) began: Instant,
    pub(super) doubts: Vec<String>,
}

/// What else it takes to tell leaks from what is suppressed.
pub(super) struct Tools {
    /// What was allocated before that time is not judged.
    pub(super) warmup: Option<Duration>,
    pub(super) rules: Suppressions,
    /// By stack: the rule that fits.
    pub(super) known: HashMap<u32, Option<usize>>,
    pub(super) symbols: Arc<Mutex<Symbols>>,
}

/// The result of a look at the target.
pub(super) struct Seen {
    pub(super) checked: Checked,
    /// Blocks from before the attach, if they are judged.
    pub(super) older: Option<Older>,
    /// What lies where the ways begin.
    pub(super) holders: Holders,
    pub(super) suppressed: Suppressed,
    pub(super) scene: Scene,
    pub(super) live_heap: LiveHeap,
    pub(super) is_complete: bool,
    pub(super) look: LookReport,
    pub(super) doubts: Vec<String>,
}

impl Inspection<'_> {
    /// What it takes to conclude a look; `known` is which rules fit which stacks.
    pub(super) fn tools(&self, known: HashMap<u32, Option<usize>>) -> Tools {
        Tools {
            warmup: self.options.warmup,
            rules: self.rules.clone(),
            known,
            symbols: Arc::clone(&self.symbols),
        }
    }
}

impl Looked {
    /// Reports the leaks that are not suppressed. That takes names, and time.
    pub(super) fn conclude(self, tools: Tools) -> Seen {
        let Self {
            look,
            holders,
            blocks,
            older,
            scene,
            live_heap,
            is_complete,
            mut report,
            began,
            doubts,
        } = self;
        let Tools { warmup, rules, known, symbols } = tools;
        let mut suppressed = Suppressed::new(rules, known, warmup, &live_heap);
        lock(&symbols).note_generated();
        let mut is_quiet = |block: &Block| suppressed.keeps(block, &live_heap, &mut lock(&symbols));
        let checked = look.conclude(&blocks, &mut is_quiet);
        report.took_us = micros(began.elapsed());
        report.words = checked.words;
        let look = report;
        Seen { checked, older, holders, suppressed, scene, live_heap, is_complete, look, doubts }
    }
}

/// The names, even if another thread panicked while it held the lock.
pub(super) fn lock(symbols: &Mutex<Symbols>) -> MutexGuard<'_, Symbols> {
    symbols.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, unless another thread reads names just now, which may take as long as a disk likes.
pub(super) fn free(symbols: &Mutex<Symbols>) -> Option<MutexGuard<'_, Symbols>> {
    match symbols.try_lock() {
        Ok(symbols) => Some(symbols),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
