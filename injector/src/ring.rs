//! Reading records: out of all rings, checked, into one sequence of events in their true order.
//!
//! Every record bears a stamp, and stamps are handed out one by one. So the order is known, and so
//! is a gap: a thread that took a stamp and has not written its record yet. Events after a gap wait
//! for it, but not for ever: a thread can be gone.
//!
//! The target can write the rings at any time: positions are loaded once and checked, what makes no
//! sense is counted as torn and left out, and what is kept waiting is bounded.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use heapattach_abi::{
    protocol::{self, Words as _},
    region,
    ring::{self, Kind, RING_HEAD_BYTES, RINGS, SLOT_BYTES},
};
use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    memory::Memory,
    shared::{Reach, Shared},
};

/// A thread has this long to finish a record: it may not get a processor.
const PATIENCE: Duration = Duration::from_secs(5);

/// Events that wait for an earlier one, at most. A power of two.
const WINDOW: u64 = 1 << 20;

/// Tells a slot in the window from an empty one; no number of a stack is so large.
const PRESENT: u64 = 1 << 63;

/// The part of a seal that is the number of the stack. What was below it is known to be right once
/// the slot is read; the ring takes its place.
const STACK_BITS: u64 = u64::MAX << 32;

const SLOT_WORDS: usize = SLOT_BYTES / 8;
type Slot = [u64; SLOT_WORDS];

/// Which call an event was part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The hook.
    pub hook: usize,
    /// Who called; of what is given back, only where everything is recorded.
    pub stack: StackId,
}

/// The sampling intervals of a session, by the numbers that records name them by.
#[derive(Debug)]
pub struct Intervals(Mutex<Vec<u64>>);

impl Intervals {
    /// With the first one.
    pub fn new(first: u64) -> Self {
        Self(Mutex::new(vec![first]))
    }

    /// Another one; answers its number, if there is one left. To be known here before a thread of
    /// the target hears of it.
    pub fn add(&self, interval: u64) -> Option<u8> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.len();
        (number < ring::INTERVALS).then(|| all.push(interval))?;
        u8::try_from(number).ok()
    }

    fn copy_to(&self, known: &mut Vec<u64>) {
        known.clone_from(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The reader of all rings.
#[derive(Debug)]
pub struct Reader {
    ring_bits: u32,
    tails: [u64; RINGS],
    /// The stamp that comes next.
    next: u64,
    /// Slots by stamp, from `next` on; all zero where there is none yet.
    window: Vec<Slot>,
    /// One more than the highest stamp in the window.
    end: u64,
    /// Since when nothing could be told although something waits.
    stuck: Option<Instant>,
    /// Slots that the fullest ring had when it was last read.
    fullest: u64,
    intervals: Arc<Intervals>,
    /// Those that were seen so far.
    known: Vec<u64>,
    /// Records that were never finished, or make no sense.
    pub torn: u64,
    /// Events told so far.
    pub told: u64,
}

impl Reader {
    /// For rings of `1 << ring_bits` slots.
    pub fn new(ring_bits: u32, intervals: Arc<Intervals>) -> Self {
        Self {
            ring_bits,
            tails: [0; RINGS],
            next: 0,
            window: vec![[0; SLOT_WORDS]; 4096],
            end: 0,
            stuck: None,
            fullest: 0,
            intervals,
            known: Vec::new(),
            torn: 0,
            told: 0,
        }
    }

    /// Reads everything there is and tells it in order, as far as it is known.
    ///
    /// # Errors
    /// When the target is gone and the rings with it.
    pub fn drain(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        mut tell: impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        self.intervals.copy_to(&mut self.known);
        let given_up = self.stuck.is_some_and(|since| since.elapsed() > PATIENCE);
        let before = self.told;
        self.fullest = 0;
        for number in 0..RINGS {
            self.read_ring(shared, memory, number, given_up, &mut tell)?;
        }
        self.tell_ready(&mut tell);
        if given_up && self.next < self.end {
            self.skip_gap();
            self.tell_ready(&mut tell);
        }
        let waits = self.next < self.end;
        self.stuck = match (waits, self.told == before) {
            (false, _) => None,
            (true, true) => self.stuck.or_else(|| Some(Instant::now())),
            (true, false) => Some(Instant::now()),
        };
        Ok(())
    }

    /// Whether a ring was more than half full when it was last read: more comes than is taken in.
    pub fn is_behind(&self) -> bool {
        self.fullest > 1 << self.ring_bits >> 1
    }

    /// The same once no thread writes any more: what is missing now stays missing.
    ///
    /// # Errors
    /// As [`Reader::drain`].
    pub fn finish(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        mut tell: impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        self.intervals.copy_to(&mut self.known);
        for number in 0..RINGS {
            self.read_ring(shared, memory, number, true, &mut tell)?;
        }
        self.tell_ready(&mut tell);
        while self.next < self.end {
            self.skip_gap();
            self.tell_ready(&mut tell);
        }
        Ok(())
    }

    fn read_ring(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        number: usize,
        given_up: bool,
        tell: &mut impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        let reach = Reach::new(shared, memory);
        let head_at = region::RING_HEADS_AT + number * RING_HEAD_BYTES;
        let head = reach.acquire(head_at + ring::HEAD);
        let mut tail = self.tails[number];
        let capacity = 1_u64 << self.ring_bits;
        if head.wrapping_sub(tail) > capacity {
            // No writer of ours goes further than a ring.
            self.torn = self.torn.saturating_add(1);
            tail = head;
        }
        self.fullest = self.fullest.max(head.wrapping_sub(tail));
        let slots = region::SLOTS_AT + number * (SLOT_BYTES << self.ring_bits);
        let writer = if ring::is_own(number) { number as u64 } else { 0 };
        while tail != head {
            let at = slots + usize::try_from(tail & (capacity - 1)).unwrap_or(0) * SLOT_BYTES;
            match protocol::read(&reach, at, tail) {
                Some([seal, packed, size, stamp]) => {
                    let slot = [seal & STACK_BITS | PRESENT | writer, packed, size, stamp];
                    // Mostly it is the very next one.
                    if stamp == self.next && self.is_free(stamp) {
                        self.tell_one(slot, tell);
                    } else {
                        self.place(slot, tell);
                    }
                }
                None if given_up => self.torn = self.torn.saturating_add(1),
                None => break,
            }
            tail = tail.wrapping_add(1);
        }
        if tail != self.tails[number] {
            self.tails[number] = tail;
            protocol::advance(&reach, head_at, tail);
        }
        reach.check()
    }

    /// Puts a slot where its stamp says.
    fn place(&mut self, slot: Slot, tell: &mut impl FnMut(Event, Call)) {
        let stamp = slot[3];
        if stamp < self.next || stamp - self.next >= WINDOW {
            // A full window is told before anything is called impossible.
            self.tell_ready(tell);
        }
        if stamp < self.next || stamp - self.next >= WINDOW {
            self.torn = self.torn.saturating_add(1);
            return;
        }
        while stamp - self.next >= self.window.len() as u64 {
            self.grow();
        }
        let index = self.index(stamp);
        self.window[index] = slot;
        self.end = self.end.max(stamp + 1);
    }

    /// Doubles the window; each slot moves to where its stamp lies in the larger one.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.window);
        self.window = vec![[0; SLOT_WORDS]; old.len() * 2];
        for slot in old.into_iter().filter(|slot| slot[0] != 0) {
            let index = self.index(slot[3]);
            self.window[index] = slot;
        }
    }

    fn index(&self, stamp: u64) -> usize {
        usize::try_from(stamp).unwrap_or(0) & (self.window.len() - 1)
    }

    fn tell_ready(&mut self, tell: &mut impl FnMut(Event, Call)) {
        while self.next < self.end {
            let index = self.index(self.next);
            let slot = self.window[index];
            if slot[0] == 0 {
                return;
            }
            self.window[index] = [0; SLOT_WORDS];
            self.tell_one(slot, tell);
        }
    }

    /// Whether no slot with this stamp waits: the target can hand out a stamp twice.
    fn is_free(&self, stamp: u64) -> bool {
        self.window[self.index(stamp)][0] == 0
    }

    /// Tells the event that is next.
    fn tell_one(&mut self, slot: Slot, tell: &mut impl FnMut(Event, Call)) {
        self.next += 1;
        self.end = self.end.max(self.next);
        match self.event(slot) {
            Some(Some((event, call))) => {
                self.told += 1;
                tell(event, call);
            }
            Some(None) => {}
            None => self.torn = self.torn.saturating_add(1),
        }
    }

    /// Gives up what is missing before the next event.
    fn skip_gap(&mut self) {
        while self.next < self.end && self.window[self.index(self.next)][0] == 0 {
            self.next += 1;
            self.torn = self.torn.saturating_add(1);
        }
    }

    /// What a slot says; `None` if it is nonsense, and no event if it says nothing.
    fn event(&self, slot: Slot) -> Option<Option<(Event, Call)>> {
        let [seal, packed, size, stamp] = slot;
        let at = RemoteAddr::new(packed & ring::ADDRESS_MASK);
        let (kind, hook, interval_number) = ring::parts(packed);
        let kind = kind?;
        let stack = StackId(u32::try_from((seal & !PRESENT) >> 32).ok()?);
        let continues = matches!(kind, Kind::Reallocated | Kind::Remapped | Kind::Restored);
        let origin = Origin { ring: u8::try_from(seal & u64::from(u8::MAX)).ok()?, continues };
        let what = match kind {
            Kind::Allocated | Kind::Reallocated => {
                let interval = *self.known.get(interval_number)?;
                What::Allocated { at, size, stack, interval }
            }
            Kind::FreedSample => What::Freed { at, block: Some(size) },
            Kind::Freed => What::Freed { at, block: None },
            Kind::Mapped | Kind::Remapped => What::Mapped { at, length: size, stack },
            Kind::Unmapped => What::Unmapped { at, length: size },
            Kind::Restored => What::Restored { announced: size },
            Kind::Nothing => return Some(None),
        };
        Some(Some((Event { stamp, origin, what }, Call { hook, stack })))
    }
}
