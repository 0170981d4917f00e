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

use crate::{
    clock::Clock,
    profile::{Limits, Profile},
};

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

/// The records of a session and what is made of them.
#[derive(Debug)]
pub struct Recorder {
    /// Where they come from.
    pub records: Records,
    intake: Intake,
    is_exact: bool,
}

/// Where events go.
#[derive(Debug)]
struct Intake {
    clock: Clock,
    profile: Profile,
    /// By the number of the stack, where every call is told.
    callers: Vec<Vec<Caller>>,
    batch: Vec<Event>,
    /// Events so far.
    taken: u64,
}

impl Intake {
    fn take(&mut self, event: Event, call: Call, is_exact: bool) {
        if is_exact {
            self.count(&event, call);
        }
        self.taken += 1;
        self.batch.push(event);
        if self.batch.len() == BATCH {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.profile.apply(&self.batch, self.clock.now(), &mut ());
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
        caller.calls = caller.calls.saturating_add(u64::from(!event.origin.continues));
        caller.bytes = caller.bytes.saturating_add(bytes);
    }
}

impl Recorder {
    /// For a session that records everything, or samples.
    pub fn new(records: Records, is_exact: bool) -> Self {
        Self {
            records,
            intake: Intake {
                clock: Clock::start(),
                profile: Profile::new(Limits::default(), Clock::temporary()),
                callers: Vec::new(),
                batch: Vec::with_capacity(BATCH),
                taken: 0,
            },
            is_exact,
        }
    }

    /// Takes in what happens until `is_over`, and what is left then.
    pub fn follow(mut self, memory: &Memory, is_over: &AtomicBool) -> Self {
        let pause = if self.is_exact { PAUSE } else { PAUSE_OF_SAMPLES };
        let Self { records, intake, is_exact, .. } = &mut self;
        while !is_over.load(Relaxed) {
            let before = intake.taken;
            // The end of the target is noticed elsewhere.
            let _ = records.drain(memory, |event, call| intake.take(event, call, *is_exact));
            intake.settle();
            if intake.taken - before <= BATCH as u64 {
                thread::sleep(pause);
            }
        }
        let _ = records.finish(memory, |event, call| intake.take(event, call, *is_exact));
        intake.settle();
        self
    }

    /// What was made of them, by stack.
    pub fn profile(&self) -> &Profile {
        &self.intake.profile
    }

    /// Who called a hook, where every call is told.
    pub fn callers_of(&self, hook: usize) -> impl Iterator<Item = (StackId, Caller)> {
        (0..).zip(&self.intake.callers).flat_map(move |(number, callers)| {
            let own = callers.iter().filter(move |caller| caller.hook == hook);
            own.map(move |caller| (StackId(number), *caller))
        })
    }
}

/// The number of a stack, or 0 for one that nobody of ours has handed out.
fn index(stack: StackId) -> usize {
    usize::try_from(stack.0).ok().filter(|&number| number <= STACKS).unwrap_or(0)
}
