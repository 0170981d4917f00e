//! Slots of the rings in the order of their stamps: those that came before their turn wait here.
//!
//! Stamps come from the target: any is possible, and what waits is bounded.

mod far;

use std::collections::BTreeSet;

use heapattach_abi::ring::SLOT_BYTES;

use far::Far;

/// Slots that wait for an earlier one, at most. A power of two.
const WINDOW: u64 = 1 << 20;

/// Slots that there is room for at first.
const SMALLEST: usize = 4096;

/// Tells a slot in the window from an empty one; no number of a stack is so large.
pub const PRESENT: u64 = 1 << 63;

const SLOT_WORDS: usize = SLOT_BYTES / 8;

/// Stamps that are passed over at a moment, at most: as many as threads can be in the middle of a record.
const MOST_LATE: usize = 1 << 16;

/// The words of a record, the seal marked by [`PRESENT`], the stamp last.
pub type Slot = [u64; SLOT_WORDS];

/// Whose turn it is, and who waits.
#[derive(Debug)]
pub struct Sequence {
    /// The stamp that comes next.
    next: u64,
    /// Slots by stamp, from `next` on; all zero where there is none yet.
    window: Vec<Slot>,
    /// One more than the highest stamp in the window.
    end: u64,
    /// Slots behind the window.
    far: Far,
    /// Stamps below `next` that were passed over, and whose slots will still come.
    late: BTreeSet<u64>,
    /// Nothing is told before what was passed over: what comes now may depend on it.
    is_held: bool,
}

/// When a stamp's turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Now, and no other has the same.
    Now,
    /// After so many others.
    Later(u64),
    /// It was passed over before it was here ([`Sequence::pass_gap`]): at once.
    Late,
    /// It has been told before, or never will be.
    Never,
}

impl Default for Sequence {
    fn default() -> Self {
        let window = vec![[0; SLOT_WORDS]; SMALLEST];
        let (far, late) = Default::default();
        Self { next: 0, window, end: 0, far, late, is_held: false }
    }
}

impl Sequence {
    /// Whether a record waits for a stamp that is missing.
    pub fn waits(&self) -> bool {
        self.next < self.end || !self.far.is_empty()
    }

    /// The stamp that comes next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// When it is the turn of a stamp.
    #[inline]
    pub fn turn(&self, stamp: u64) -> Turn {
        // The target can hand out a stamp twice.
        if stamp == self.next && !self.is_held && self.window[self.index(stamp)][0] == 0 {
            return Turn::Now;
        }
        match stamp.checked_sub(self.next) {
            Some(later) => Turn::Later(later),
            None if self.late.contains(&stamp) => Turn::Late,
            None => Turn::Never,
        }
    }

    /// A stamp that was passed over is here.
    pub fn take_late(&mut self, stamp: u64) {
        self.late.remove(&stamp);
        self.is_held &= !self.late.is_empty();
    }

    /// What was passed over does not come any more.
    pub fn forget_late(&mut self) {
        self.late.clear();
        self.is_held = false;
    }

    /// From now on nothing is told before what was passed over, or everything is.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held && !self.late.is_empty();
    }

    /// Whether there is room for a stamp whose turn is after so many others.
    pub fn has_room(later: u64) -> bool {
        later < WINDOW
    }

    /// It was the turn of the next stamp.
    #[inline]
    pub fn advance(&mut self) {
        self.next += 1;
        self.end = self.end.max(self.next);
    }

    /// Keeps a slot whose turn is later, if there is room for it.
    #[inline]
    pub fn keep(&mut self, slot: Slot) {
        let stamp = slot[3];
        if stamp.checked_sub(self.next).is_none_or(|later| !Self::has_room(later)) {
            return;
        }
        while stamp - self.next >= self.window.len() as u64 {
            self.grow();
        }
        let index = self.index(stamp);
        self.window[index] = slot;
        self.end = self.end.max(stamp + 1);
    }

    /// Keeps a slot of this ring for which there is no room yet; `false` if that cannot be either.
    pub fn keep_far(&mut self, ring: usize, slot: Slot) -> bool {
        self.far.keep(ring, slot)
    }

    /// The same of a slot that was passed over: what waits of its ring leaves room for such.
    pub fn keep_far_late(&mut self, ring: usize, slot: Slot) -> bool {
        self.far.keep_late(ring, slot)
    }

    /// Takes in what there is room for by now; answers whether that was something.
    pub fn admit(&mut self) -> bool {
        let mut has_come = false;
        while let Some(slot) = self.far.take_before(self.next.saturating_add(WINDOW)) {
            // The target can have given its number to others.
            has_come |= slot[3] >= self.next;
            self.keep(slot);
        }
        has_come
    }

    /// The next slot, if it is here.
    #[inline]
    pub fn take(&mut self) -> Option<Slot> {
        if self.next >= self.end || self.is_held {
            return None;
        }
        let index = self.index(self.next);
        let slot = self.window[index];
        if slot[0] == 0 {
            return None;
        }
        self.window[index] = [0; SLOT_WORDS];
        self.advance();
        Some(slot)
    }

    /// Gives up what is missing before the next slot that is here; answers how much that was. If there is
    /// none but far away, no honest thread has written that.
    pub fn skip_gap(&mut self) -> u64 {
        if self.next >= self.end {
            return self.far.forget();
        }
        let before = self.next;
        while self.next < self.end && self.window[self.index(self.next)][0] == 0 {
            self.next += 1;
        }
        self.next - before
    }

    /// Passes over what is missing before the next slot that is here: it will come, and it does not
    /// matter that it comes later. Answers how much of it there was no room to remember.
    pub fn pass_gap(&mut self) -> u64 {
        let before = self.next;
        let skipped = self.skip_gap();
        let gap = self.next - before;
        let room = MOST_LATE.saturating_sub(self.late.len()) as u64;
        self.late.extend(before..before + gap.min(room));
        skipped - gap.min(room)
    }

    /// Doubles the window; each slot moves to where its stamp lies in the larger one.
    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.window);
        self.window = vec![[0; SLOT_WORDS]; old.len() * 2];
        for slot in old.into_iter().filter(|slot| slot[0] != 0) {
            let index = self.index(slot[3]);
            self.window[index] = slot;
        }
    }

    #[inline]
    fn index(&self, stamp: u64) -> usize {
        usize::try_from(stamp).unwrap_or(0) & (self.window.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(stamp: u64) -> Slot {
        [PRESENT, 0, 0, stamp]
    }

    #[test]
    fn what_is_passed_over_is_told_when_it_comes_and_only_once() {
        let mut all = Sequence::default();
        all.keep(slot(2));
        assert_eq!((all.take(), all.pass_gap()), (None, 0));
        assert_eq!(all.take(), Some(slot(2)));
        assert_eq!((all.turn(0), all.turn(1), all.turn(2)), (Turn::Late, Turn::Late, Turn::Never));
        all.take_late(0);
        assert_eq!((all.turn(0), all.turn(1)), (Turn::Never, Turn::Late));
        all.forget_late();
        assert_eq!(all.turn(1), Turn::Never);
    }

    #[test]
    fn what_comes_after_the_moment_waits_for_what_was_passed_over() {
        let mut all = Sequence::default();
        all.keep(slot(1));
        all.pass_gap();
        assert_eq!(all.take(), Some(slot(1)));
        all.hold(true);
        assert_eq!(all.turn(2), Turn::Later(0));
        all.keep(slot(2));
        assert_eq!(all.take(), None);
        all.take_late(0);
        assert_eq!(all.take(), Some(slot(2)));
    }

    #[test]
    fn a_gap_without_end_takes_no_more_room_than_threads_need() {
        let mut all = Sequence::default();
        all.keep(slot(WINDOW - 1));
        assert_eq!(all.pass_gap(), WINDOW - 1 - MOST_LATE as u64);
        assert_eq!(all.late.len(), MOST_LATE);
    }

    #[test]
    fn each_is_told_in_its_turn_wherever_it_comes_from() {
        let mut all = Sequence::default();
        let far = 3 * SMALLEST as u64;
        for stamp in (0..far).rev() {
            all.keep(slot(stamp));
        }
        let told: Vec<u64> = std::iter::from_fn(|| all.take()).map(|slot| slot[3]).collect();
        assert_eq!(told, Vec::from_iter(0..far));
        assert_eq!((all.turn(far), all.turn(far + 2)), (Turn::Now, Turn::Later(2)));
        assert_eq!(all.turn(far - 1), Turn::Never);
    }

    #[test]
    fn what_is_missing_is_given_up_once() {
        let mut all = Sequence::default();
        all.keep(slot(5));
        assert!(all.take().is_none() && all.waits());
        assert_eq!((all.skip_gap(), all.skip_gap()), (5, 0));
        assert_eq!(all.take(), Some(slot(5)));
        assert_eq!((all.skip_gap(), all.waits()), (0, false));
    }

    #[test]
    fn there_is_no_room_for_what_is_very_far() {
        let mut all = Sequence::default();
        all.keep(slot(WINDOW));
        all.keep(slot(u64::MAX));
        assert!(!all.waits() && all.window.len() == SMALLEST);
        assert!(Sequence::has_room(WINDOW - 1) && !Sequence::has_room(WINDOW));
    }
}
