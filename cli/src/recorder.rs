//! From the stream of a session to its profile, while the session lasts: in a thread of its own,
//! since rings fill within milliseconds while other things take longer.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_injector::{
    addr::RemoteAddr,
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

/// The callers of one hook that are told apart, at most; in all, no session has so many.
const CALLERS_LIMIT: usize = 1 << 20;

/// What is made of the events.
#[derive(Debug)]
pub struct Recorder {
    /// Where they come from.
    pub records: Records,
    /// By the place that asked: its stack is the first that was seen of it.
    pub profile: Profile,
    /// Calls and bytes by hook and stack, where every call is told.
    pub callers: HashMap<(usize, StackId), (u64, u64)>,
    batch: Vec<Event>,
    /// The first stack seen of each caller.
    places: HashMap<RemoteAddr, StackId>,
    /// The same, by stack.
    place_of: HashMap<StackId, StackId>,
    is_exact: bool,
}

impl Recorder {
    /// For a session that records everything, or samples.
    pub fn new(records: Records, is_exact: bool) -> Self {
        Self {
            records,
            profile: Profile::new(Limits::default()),
            callers: HashMap::new(),
            batch: Vec::with_capacity(BATCH),
            places: HashMap::new(),
            place_of: HashMap::new(),
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
        for (mut event, call) in told.drain(..) {
            if self.is_exact {
                self.count(&event, call);
            }
            if let What::Allocated { stack, .. } | What::Mapped { stack, .. } = &mut event.what {
                *stack = self.place(*stack);
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
        let key = (call.hook, call.stack);
        if self.callers.len() < CALLERS_LIMIT || self.callers.contains_key(&key) {
            let (calls, sum) = self.callers.entry(key).or_default();
            *calls = calls.saturating_add(u64::from(!call.continues));
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The stack that stands for all stacks with the same caller.
    fn place(&mut self, stack: StackId) -> StackId {
        if let Some(place) = self.place_of.get(&stack) {
            return *place;
        }
        let caller = self.records.stack(stack).and_then(|stack| stack.frames.first());
        let Some(caller) = caller else { return StackId(0) };
        let place = *self.places.entry(*caller).or_insert(stack);
        self.place_of.insert(stack, place);
        place
    }
}
