//! From the stream of a session to its profile, while the session lasts: in a thread of its own,
//! since rings fill within milliseconds while other things take longer.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_abi::stacks::STACKS;
use heapattach_injector::{
    event::{Event, StackId, What},
    memory::Memory,
    ring::Call,
    stream::Records,
};

use crate::profile::{Limits, Profile};

/// Events that are taken in together.
const BATCH: usize = 4096;

/// Between two looks at rings that were nearly empty.
const PAUSE: Duration = Duration::from_micros(500);
/// The same for samples, which are few.
const PAUSE_OF_SAMPLES: Duration = Duration::from_millis(10);

/// Hooks that one call stack is told apart by; a stack leads to one hook, if nobody lies.
const HOOKS_OF_A_STACK: usize = 64;

/// Calls of one hook from one stack.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The hook.
    pub hook: usize,
    /// Calls.
    pub calls: u64,
    /// Bytes they asked for.
    pub bytes: u64,
}

/// What is made of the events.
#[derive(Debug)]
pub struct Recorder {
    /// Where they come from.
    pub records: Records,
    /// By stack.
    pub profile: Profile,
    /// By the number of the stack, where every call is told.
    callers: Vec<Vec<Caller>>,
    batch: Vec<Event>,
    is_exact: bool,
}

impl Recorder {
    /// For a session that records everything, or samples.
    pub fn new(records: Records, is_exact: bool) -> Self {
        Self {
            records,
            profile: Profile::new(Limits::default()),
            callers: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            is_exact,
        }
    }

    /// Takes in what happens until `is_over`, and what is left then.
    pub fn follow(mut self, memory: &Memory, is_over: &AtomicBool) -> Self {
        let pause = if self.is_exact { PAUSE } else { PAUSE_OF_SAMPLES };
        let mut told = Vec::new();
        while !is_over.load(Relaxed) {
            // The end of the target is noticed elsewhere.
            let _ = self.records.drain(memory, |event, call| told.push((event, call)));
            let was_busy = told.len() > BATCH;
            self.take(&mut told);
            if !was_busy {
                thread::sleep(pause);
            }
        }
        let _ = self.records.finish(memory, |event, call| told.push((event, call)));
        self.take(&mut told);
        self
    }

    fn take(&mut self, told: &mut Vec<(Event, Call)>) {
        for (event, call) in told.drain(..) {
            if self.is_exact {
                self.count(&event, call);
            }
            self.batch.push(event);
            if self.batch.len() == BATCH {
                self.profile.apply(&self.batch);
                self.batch.clear();
            }
        }
        self.profile.apply(&self.batch);
        self.batch.clear();
    }

    fn count(&mut self, event: &Event, call: Call) {
        let bytes = match event.what {
            What::Allocated { size, .. } => size,
            What::Mapped { length, .. } | What::Unmapped { length, .. } => length,
            What::Freed { .. } | What::Restored { .. } => 0,
        };
        let number = index(call.stack);
        if self.callers.len() <= number {
            self.callers.resize(number + 1, Vec::new());
        }
        let callers = &mut self.callers[number];
        let known = callers.iter().position(|caller| caller.hook == call.hook);
        let at = known.unwrap_or_else(|| {
            if callers.len() < HOOKS_OF_A_STACK {
                callers.push(Caller { hook: call.hook, calls: 0, bytes: 0 });
            }
            callers.len() - 1
        });
        let caller = &mut callers[at];
        caller.calls = caller.calls.saturating_add(u64::from(!call.continues));
        caller.bytes = caller.bytes.saturating_add(bytes);
    }

    /// Who called a hook, where every call is told.
    pub fn callers_of(&self, hook: usize) -> impl Iterator<Item = (StackId, Caller)> {
        (0..).zip(&self.callers).flat_map(move |(number, callers)| {
            let own = callers.iter().filter(move |caller| caller.hook == hook);
            own.map(move |caller| (StackId(number), *caller))
        })
    }
}

/// The number of a stack, or 0 for one that nobody of ours has handed out.
fn index(stack: StackId) -> usize {
    usize::try_from(stack.0).ok().filter(|&number| number <= STACKS).unwrap_or(0)
}
