//! Reading records: out of all rings, checked, into one sequence of events in their true order.
//!
//! Every record bears a stamp, and stamps are handed out one by one. So the order is known, and so
//! is a gap: a thread that took a stamp and has not written its record yet. Events after a gap wait
//! for it, but not for ever: a thread can be gone.
//!
//! The target can write the rings at any time: positions are loaded once and checked, what makes no
//! sense is counted as torn and left out, and what is kept waiting is bounded.

mod holes;
mod intervals;
mod meaning;

use std::{sync::Arc, time::Duration};

use heapattach_abi::{
    protocol::{self, Words as _},
    region,
    ring::{self, RING_HEAD_BYTES, RINGS, SLOT_BYTES},
};
use nix::errno::Errno;

use crate::records::{
    patience::Since,
    sequence::{Sequence, Slot, Turn},
};
use heapattach_process::{
    event::Event,
    memory::Memory,
    shared::{Reach, Shared},
};

pub use intervals::Intervals;
pub use meaning::Call;

use holes::Hole;

/// A thread has this long to finish a record: it may not get a processor.
const PATIENCE: Duration = Duration::from_secs(5);

/// Events told until threads that wait for room are shown again that the reader is at work.
const SHOWN_EVERY: u64 = 1 << 12;

/// How much of a ring is read at once.
#[derive(Clone, Copy)]
struct Bounds {
    /// Slots.
    most: u64,
    /// How far ahead of the next stamp.
    ahead: u64,
    /// What to do about a slot that is begun and not finished.
    unfinished: Unfinished,
}

/// What to do about a slot that is begun and not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    /// It is waited for, and what follows it in its ring.
    Awaited,
    /// What follows is told, and it when it comes: no thread runs, and it is as if it had not been begun.
    Passed,
    /// It is lost: its thread is gone.
    GivenUp,
}

impl Bounds {
    /// So little of each ring that it stays in the caches until it is told.
    const NEAR: Self = Self { most: 1024, ahead: 4096, unfinished: Unfinished::Awaited };

    /// All that there is.
    fn all(unfinished: Unfinished) -> Self {
        Self { most: u64::MAX, ahead: u64::MAX, unfinished }
    }
}

/// The reader of all rings.
#[derive(Debug)]
pub struct Reader {
    ring_bits: u32,
    /// How long a thread has to finish a record.
    patience: Duration,
    tails: [u64; RINGS],
    /// Slots before the tails that were passed over.
    holes: Vec<Hole>,
    sequence: Sequence,
    /// Since when nothing could be told although something waits.
    stuck: Option<Since>,
    /// Slots that the fullest ring had when it was last read.
    fullest: u64,
    /// How often it has looked: threads that wait for it know by this that it is there.
    looked: u64,
    intervals: Arc<Intervals>,
    /// Those that were seen so far.
    known: Vec<u64>,
    /// Records that were never finished, or make no sense.
    pub torn: u64,
    /// Those of them that make none, or came after their turn.
    pub absurd: u64,
    /// Events told so far.
    pub told: u64,
}

impl Reader {
    /// For rings of `1 << ring_bits` slots.
    pub fn new(ring_bits: u32, intervals: Arc<Intervals>) -> Self {
        Self {
            ring_bits,
            patience: PATIENCE,
            tails: [0; RINGS],
            holes: Vec::new(),
            sequence: Sequence::default(),
            stuck: None,
            fullest: 0,
            looked: 0,
            intervals,
            known: Vec::new(),
            torn: 0,
            absurd: 0,
            told: 0,
        }
    }

    /// The same that gives up what is not finished after so long.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
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
        let given_up = self.stuck.is_some_and(|since| since.is_over(self.patience));
        let before = self.told;
        let reach = Reach::new(shared, memory);
        self.show(&reach);
        reach.check()?;
        self.fill_holes(&reach, true, &mut tell);
        let waiting = self.waiting(&reach);
        let slots = |&(number, head): &(usize, u64)| head.wrapping_sub(self.tails[number]);
        self.fullest = waiting.iter().map(slots).max().unwrap_or(0);
        let unfinished = if given_up { Unfinished::GivenUp } else { Unfinished::Awaited };
        if given_up {
            self.read_out(&reach, &waiting, unfinished, &mut tell)?;
            self.torn = self.torn.saturating_add(self.sequence.skip_gap());
        }
        self.read(&reach, &waiting, unfinished, &mut tell)?;
        self.stuck = match (self.sequence.waits(), self.told == before) {
            (true, true) => self.stuck.or_else(|| Some(Since::now())),
            _ => None,
        };
        Ok(())
    }

    /// Slots of one ring.
    pub fn slots(&self) -> u64 {
        1 << self.ring_bits
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
        let reach = self.look_again(shared, memory, &mut tell);
        self.torn = self.torn.saturating_add(std::mem::take(&mut self.holes).len() as u64);
        self.sequence.forget_late();
        self.read_all(&reach, Unfinished::GivenUp, Sequence::skip_gap, &mut tell)
    }

    /// Everything up to a moment in which no thread of the target runs. A thread that stands in the
    /// middle of a record has not given its block back yet, or the block that it was given is not known
    /// to others: nothing that others have recorded can depend on that. So it is passed over, and told when it
    /// is finished.
    ///
    /// # Errors
    /// As [`Reader::drain`].
    pub fn settle(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        mut tell: impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        let reach = self.look_again(shared, memory, &mut tell);
        self.sequence.hold(false);
        self.read_all(&reach, Unfinished::Passed, Sequence::pass_gap, &mut tell)?;
        if self.holes.is_empty() {
            self.sequence.forget_late();
        }
        self.sequence.hold(true);
        self.holes.iter_mut().for_each(|hole| hole.since = None);
        self.stuck = None;
        Ok(())
    }

    /// What is passed over is looked at once more, while no thread runs.
    fn look_again<'r>(
        &mut self,
        shared: &'r Shared,
        memory: &'r Memory,
        tell: &mut impl FnMut(Event, Call),
    ) -> Reach<'r> {
        self.intervals.copy_to(&mut self.known);
        let reach = Reach::new(shared, memory);
        self.fill_holes(&reach, false, tell);
        reach
    }

    /// Reads all that there is; `leave_gap` says how many records are missing where something waits
    /// for what is missing.
    fn read_all(
        &mut self,
        reach: &Reach<'_>,
        unfinished: Unfinished,
        leave_gap: fn(&mut Sequence) -> u64,
        tell: &mut impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        let waiting = self.waiting(reach);
        while self.read_out(reach, &waiting, unfinished, tell)? {
            self.torn = self.torn.saturating_add(leave_gap(&mut self.sequence));
        }
        Ok(())
    }

    /// Records that were begun before the last moment and are not finished.
    pub fn unfinished(&self) -> usize {
        self.holes.len()
    }

    /// The rings that hold something, and up to where.
    fn waiting(&mut self, reach: &Reach<'_>) -> Vec<(usize, u64)> {
        let capacity = 1_u64 << self.ring_bits;
        let heads = (0..RINGS).map(|number| (number, reach.acquire(head_at(number) + ring::HEAD)));
        let mut waiting = Vec::new();
        for (number, head) in heads {
            if head.wrapping_sub(self.tails[number]) > capacity {
                // No writer of ours goes further than a ring.
                self.refuse();
                self.tails[number] = head;
                self.holes.retain(|hole| hole.ring != number);
                protocol::advance(reach, head_at(number), head);
            }
            if head != self.tails[number] {
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
        unfinished: Unfinished,
        tell: &mut impl FnMut(Event, Call),
    ) -> Result<bool, Errno> {
        loop {
            let before = self.tails;
            for &ring in waiting {
                self.read_ring(reach, ring, Bounds::NEAR, tell);
            }
            self.tell_ready(reach, tell);
            reach.check()?;
            if self.tails == before {
                break;
            }
        }
        let mut is_left = false;
        for &ring in waiting {
            is_left |= self.read_ring(reach, ring, Bounds::all(unfinished), tell);
        }
        self.tell_ready(reach, tell);
        reach.check().map(|()| is_left)
    }

    /// Reads these rings up to there, again and again, until nothing more can be read before what is
    /// missing next was given up: what is told makes room for more, and what seems to be missing may be in
    /// a ring that there was no room for before. Answers whether something waits for what is missing.
    fn read_out(
        &mut self,
        reach: &Reach<'_>,
        waiting: &[(usize, u64)],
        unfinished: Unfinished,
        tell: &mut impl FnMut(Event, Call),
    ) -> Result<bool, Errno> {
        loop {
            let before = (self.tails, self.sequence.next());
            let is_left = self.read(reach, waiting, unfinished, tell)?;
            if (self.tails, self.sequence.next()) == before {
                return Ok(is_left || self.sequence.waits());
            }
        }
    }

    /// Leaves out a record that no honest thread writes.
    fn refuse(&mut self) {
        self.torn = self.torn.saturating_add(1);
        self.absurd = self.absurd.saturating_add(1);
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
        let writer = meaning::writer(number);
        let mut is_left = false;
        while tail != end {
            let at = slots + usize::try_from(tail & (capacity - 1)).unwrap_or(0) * SLOT_BYTES;
            match protocol::read(reach, at, tail) {
                Some(slot) => {
                    let stamp = slot[3];
                    let slot = meaning::kept(writer, slot);
                    match self.sequence.turn(stamp) {
                        // Mostly it is the very next one.
                        Turn::Now => {
                            self.sequence.advance();
                            self.tell_one(slot, tell);
                        }
                        Turn::Later(later) if later > bounds.ahead => break,
                        Turn::Later(later) if Sequence::has_room(later) => self.sequence.keep(slot),
                        Turn::Later(_) if self.sequence.keep_far(number, slot) => {}
                        Turn::Later(_) => {
                            is_left = true;
                            break;
                        }
                        Turn::Late | Turn::Never => self.refuse(),
                    }
                }
                None => match bounds.unfinished {
                    Unfinished::GivenUp => self.torn = self.torn.saturating_add(1),
                    Unfinished::Passed => {
                        self.holes.push(Hole { ring: number, position: tail, since: None });
                    }
                    Unfinished::Awaited => break,
                },
            }
            tail = tail.wrapping_add(1);
            // A thread that waits for room is not to wait until all of a full ring was read.
            if tail.wrapping_sub(self.tails[number]) >= Bounds::NEAR.most {
                self.give_room(reach, number, tail);
            }
        }
        if tail != self.tails[number] {
            self.give_room(reach, number, tail);
        }
        is_left
    }

    /// A ring was read up to there: what can be written over is its writers' again.
    fn give_room(&mut self, reach: &Reach<'_>, number: usize, tail: u64) {
        self.tails[number] = tail;
        protocol::advance(reach, head_at(number), self.read_up_to(number));
        self.show(reach);
    }

    /// Tells threads that wait for room that the reader is at it: one that gave up speaks for the others
    /// only as long as the reader makes no progress.
    fn show(&mut self, reach: &Reach<'_>) {
        self.looked = self.looked.wrapping_add(1);
        reach.set(region::LOOKED, self.looked);
    }

    /// Tells what nothing is missing before any more. That can be all that ever waits, and take long while
    /// the rings are full: the reader is at work meanwhile.
    fn tell_ready(&mut self, reach: &Reach<'_>, tell: &mut impl FnMut(Event, Call)) {
        loop {
            while let Some(slot) = self.sequence.take() {
                self.tell_one(slot, tell);
                if self.told.is_multiple_of(SHOWN_EVERY) {
                    self.show(reach);
                }
            }
            if !self.sequence.admit() {
                return;
            }
        }
    }

    #[inline]
    fn tell_one(&mut self, slot: Slot, tell: &mut impl FnMut(Event, Call)) {
        match meaning::event(slot, &self.known).or_else(|| self.event_of_now(slot)) {
            Some(Some((event, call))) => {
                self.told += 1;
                tell(event, call);
            }
            Some(None) => {}
            None => self.refuse(),
        }
    }

    /// What a slot says that may name an interval which is newer than this reading.
    #[cold]
    fn event_of_now(&mut self, slot: Slot) -> Option<Option<(Event, Call)>> {
        self.intervals.copy_to(&mut self.known);
        meaning::event(slot, &self.known)
    }
}

/// Where the head of a ring is.
fn head_at(number: usize) -> usize {
    region::RING_HEADS_AT + number * RING_HEAD_BYTES
}
