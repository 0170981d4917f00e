//! Reading records: out of all rings, checked, into one sequence of events in their true order.
//!
//! Every record bears a stamp, and stamps are handed out one by one. So the order is known, and so
//! is a gap: a thread that took a stamp and has not written its record yet. Events after a gap wait
//! for it, but not for ever: a thread can be gone.
//!
//! The target can write the rings at any time: positions are loaded once and checked, what makes no
//! sense is counted as torn and left out, and what is kept waiting is bounded.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use heapattach_abi::{
    kind::HookKind,
    protocol::{self, Words as _},
    region,
    ring::{self, Kind, RING_HEAD_BYTES, RINGS, SLOT_BYTES},
};
use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    memory::Memory,
    sequence::{PRESENT, Sequence, Slot, Turn},
    shared::{Reach, Shared},
};

/// A thread has this long to finish a record: it may not get a processor.
const PATIENCE: Duration = Duration::from_secs(5);

/// The part of a seal that is the number of the stack. What was below it is known to be right once
/// the slot is read; the ring takes its place.
const STACK_BITS: u64 = u64::MAX << 32;

/// The hooks of what only gives back: nothing that it announces fails.
const FREES: Range<usize> =
    HookKind::Free.first_hook()..HookKind::Free.first_hook() + HookKind::Free.hooks();

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

/// How much of a ring is read at once.
#[derive(Clone, Copy)]
struct Bounds {
    /// Slots.
    most: u64,
    /// How far ahead of the next stamp.
    ahead: u64,
    /// What was begun and never finished is passed over.
    given_up: bool,
}

impl Bounds {
    /// So little of each ring that it stays in the caches until it is told.
    const NEAR: Self = Self { most: 1024, ahead: 4096, given_up: false };
    /// All that there is.
    const ALL: Self = Self { most: u64::MAX, ahead: u64::MAX, given_up: false };
}

/// The reader of all rings.
#[derive(Debug)]
pub struct Reader {
    ring_bits: u32,
    tails: [u64; RINGS],
    sequence: Sequence,
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
            sequence: Sequence::default(),
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
        let reach = Reach::new(shared, memory);
        let waiting = self.waiting(&reach);
        let slots = |&(number, head): &(usize, u64)| head.wrapping_sub(self.tails[number]);
        self.fullest = waiting.iter().map(slots).max().unwrap_or(0);
        self.read(&reach, &waiting, given_up, &mut tell)?;
        if given_up && self.sequence.waits() {
            self.torn = self.torn.saturating_add(self.sequence.skip_gap());
            self.read(&reach, &waiting, true, &mut tell)?;
        }
        self.stuck = match (self.sequence.waits(), self.told == before) {
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
        let reach = Reach::new(shared, memory);
        let waiting = self.waiting(&reach);
        while self.read(&reach, &waiting, true, &mut tell)? || self.sequence.waits() {
            self.torn = self.torn.saturating_add(self.sequence.skip_gap());
        }
        Ok(())
    }

    /// The rings that hold something, and up to where.
    fn waiting(&mut self, reach: &Reach<'_>) -> Vec<(usize, u64)> {
        let capacity = 1_u64 << self.ring_bits;
        let heads = (0..RINGS).map(|number| (number, reach.acquire(head_at(number) + ring::HEAD)));
        let mut waiting = Vec::new();
        for (number, head) in heads {
            let tail = &mut self.tails[number];
            if head.wrapping_sub(*tail) > capacity {
                // No writer of ours goes further than a ring.
                self.torn = self.torn.saturating_add(1);
                *tail = head;
                protocol::advance(reach, head_at(number), head);
            }
            if head != *tail {
                waiting.push((number, head));
            }
        }
        waiting
    }

    /// Reads these rings up to there. A little of each in turn, as long as nothing is missing: what
    /// is told has not left the caches, and threads that wait for room have some soon. Then, past
    /// what is missing, the rest, as much as may wait; answers whether something had to be left.
    fn read(
        &mut self,
        reach: &Reach<'_>,
        waiting: &[(usize, u64)],
        given_up: bool,
        tell: &mut impl FnMut(Event, Call),
    ) -> Result<bool, Errno> {
        loop {
            let before = self.tails;
            for &ring in waiting {
                self.read_ring(reach, ring, Bounds::NEAR, tell);
            }
            self.tell_ready(tell);
            reach.check()?;
            if self.tails == before {
                break;
            }
        }
        let mut is_left = false;
        for &ring in waiting {
            is_left |= self.read_ring(reach, ring, Bounds { given_up, ..Bounds::ALL }, tell);
        }
        self.tell_ready(tell);
        reach.check().map(|()| is_left)
    }

    /// Answers whether there was no room for a slot that makes sense.
    fn read_ring(
        &mut self,
        reach: &Reach<'_>,
        (number, head): (usize, u64),
        bounds: Bounds,
        tell: &mut impl FnMut(Event, Call),
    ) -> bool {
        let mut tail = self.tails[number];
        let end = tail.wrapping_add(bounds.most.min(head.wrapping_sub(tail)));
        let slots = region::SLOTS_AT + number * (SLOT_BYTES << self.ring_bits);
        let capacity = 1_u64 << self.ring_bits;
        let writer = if ring::is_own(number) { number as u64 } else { 0 };
        let mut is_left = false;
        while tail != end {
            let at = slots + usize::try_from(tail & (capacity - 1)).unwrap_or(0) * SLOT_BYTES;
            match protocol::read(reach, at, tail) {
                Some([seal, packed, size, stamp]) => {
                    let slot = [seal & STACK_BITS | PRESENT | writer, packed, size, stamp];
                    match self.sequence.turn(stamp) {
                        // Mostly it is the very next one.
                        Turn::Now => {
                            self.sequence.advance();
                            self.tell_one(slot, tell);
                        }
                        Turn::Later(later) if later > bounds.ahead => break,
                        Turn::Later(later) if Sequence::has_room(later) => self.sequence.keep(slot),
                        Turn::Later(_) if self.sequence.waits() => {
                            is_left = true;
                            break;
                        }
                        Turn::Later(_) | Turn::Never => self.torn = self.torn.saturating_add(1),
                    }
                }
                None if bounds.given_up => self.torn = self.torn.saturating_add(1),
                None => break,
            }
            tail = tail.wrapping_add(1);
        }
        if tail != self.tails[number] {
            self.tails[number] = tail;
            protocol::advance(reach, head_at(number), tail);
        }
        is_left
    }

    fn tell_ready(&mut self, tell: &mut impl FnMut(Event, Call)) {
        while let Some(slot) = self.sequence.take() {
            self.tell_one(slot, tell);
        }
    }

    #[inline]
    fn tell_one(&mut self, slot: Slot, tell: &mut impl FnMut(Event, Call)) {
        match self.event(slot) {
            Some(Some((event, call))) => {
                self.told += 1;
                tell(event, call);
            }
            Some(None) => {}
            None => self.torn = self.torn.saturating_add(1),
        }
    }

    /// What a slot says; `None` if it is nonsense, and no event if it says nothing.
    #[inline]
    fn event(&self, slot: Slot) -> Option<Option<(Event, Call)>> {
        let [seal, packed, size, stamp] = slot;
        let at = RemoteAddr::new(packed & ring::ADDRESS_MASK);
        let (kind, hook, interval_number) = ring::parts(packed);
        let kind = kind?;
        let stack = StackId(u32::try_from((seal & !PRESENT) >> 32).ok()?);
        let continues = matches!(kind, Kind::Reallocated | Kind::Remapped | Kind::Restored);
        let is_final = matches!(kind, Kind::FreedSample | Kind::Freed) && FREES.contains(&hook);
        let ring = u8::try_from(seal & u64::from(u8::MAX)).ok()?;
        let origin = Origin { ring, continues, is_final };
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

/// Where the head of a ring is.
fn head_at(number: usize) -> usize {
    region::RING_HEADS_AT + number * RING_HEAD_BYTES
}
