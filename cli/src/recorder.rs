//! From the stream of a session to its profile, while the session lasts.

use std::collections::HashMap;

use heapattach_injector::{
    addr::RemoteAddr,
    event::{Event, StackId, What},
    ring::Call,
    session::Session,
};

use crate::profile::{Limits, Profile};

/// Events that are taken in together.
const BATCH: usize = 4096;

/// The callers of one hook that are told apart, at most; in all, no session has so many.
const CALLERS_LIMIT: usize = 1 << 20;

/// What is made of the events.
#[derive(Debug)]
pub struct Recorder {
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
    pub fn new(is_exact: bool) -> Self {
        Self {
            profile: Profile::new(Limits::default()),
            callers: HashMap::new(),
            batch: Vec::with_capacity(BATCH),
            places: HashMap::new(),
            place_of: HashMap::new(),
            is_exact,
        }
    }

    /// Takes in what has happened since the last time. The end of the target is noticed elsewhere.
    pub fn drain(&mut self, session: &mut Session<'_>) {
        let memory = &session.target().memory;
        let mut told = Vec::new();
        let _ = session.stream.drain(memory, |event, call| told.push((event, call)));
        self.take(session, told);
    }

    /// The same when nothing is written any more.
    pub fn finish(&mut self, session: &mut Session<'_>) {
        let memory = &session.target().memory;
        let mut told = Vec::new();
        let _ = session.stream.finish(memory, |event, call| told.push((event, call)));
        self.take(session, told);
    }

    fn take(&mut self, session: &Session<'_>, told: Vec<(Event, Call)>) {
        for (mut event, call) in told {
            if self.is_exact {
                self.count(&event, call);
            }
            if let What::Allocated { stack, .. } | What::Mapped { stack, .. } = &mut event.what {
                *stack = self.place(session, *stack);
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
    fn place(&mut self, session: &Session<'_>, stack: StackId) -> StackId {
        if let Some(place) = self.place_of.get(&stack) {
            return *place;
        }
        let caller = session.stream.stack(stack).and_then(|stack| stack.frames.first());
        let Some(caller) = caller else { return StackId(0) };
        let place = *self.places.entry(*caller).or_insert(stack);
        self.place_of.insert(stack, place);
        place
    }
}
