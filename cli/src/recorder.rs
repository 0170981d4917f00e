//! From the stream of a session to its profile, while the session lasts: in a thread of its own,
//! since rings fill within milliseconds while other things take longer.

use std::{
    collections::{HashMap, VecDeque},
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

/// Events that wait for a stack, at most.
const HELD_BACK: usize = 1 << 16;

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
        let mut told = VecDeque::new();
        while !is_over.load(Relaxed) {
            let held_back = told.len();
            // The end of the target is noticed elsewhere.
            let _ = self.records.drain(memory, |event, call| told.push_back((event, call)));
            let was_busy = told.len() - held_back > BATCH;
            self.take(&mut told, HELD_BACK);
            if !was_busy {
                thread::sleep(pause);
            }
        }
        let _ = self.records.finish(memory, |event, call| told.push_back((event, call)));
        self.take(&mut told, 0);
        self
    }

    /// Takes in events up to the first whose stack is not known yet: the thread that met it first
    /// is still storing it, and others name it already. Its own event comes after it. No more than
    /// `most` are held back for that.
    fn take(&mut self, told: &mut VecDeque<(Event, Call)>, most: usize) {
        while let Some(&(mut event, call)) = told.front() {
            if let What::Allocated { stack, .. } | What::Mapped { stack, .. } = &mut event.what {
                *stack = match self.place(*stack) {
                    Some(place) => place,
                    None if told.len() <= most => break,
                    None => StackId(0),
                };
            }
            told.pop_front();
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
        let key = (call.hook, call.stack);
        if self.callers.len() < CALLERS_LIMIT || self.callers.contains_key(&key) {
            let (calls, sum) = self.callers.entry(key).or_default();
            *calls = calls.saturating_add(u64::from(!call.continues));
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The stack that stands for all stacks with the same caller; `None` if it is not known yet.
    fn place(&mut self, stack: StackId) -> Option<StackId> {
        if stack == StackId(0) {
            return Some(stack);
        }
        if let Some(place) = self.place_of.get(&stack) {
            return Some(*place);
        }
        let caller = self.records.stack(stack)?.frames.first();
        let place =
            caller.map_or(StackId(0), |caller| *self.places.entry(*caller).or_insert(stack));
        self.place_of.insert(stack, place);
        Some(place)
    }
}
