//! Slots of the rings in the order of their stamps: those that came before their turn wait here.
//!
//! Stamps come from the target: any is possible, and what waits is bounded.

use heapattach_abi::ring::SLOT_BYTES;

/// Slots that wait for an earlier one, at most. A power of two.
const WINDOW: u64 = 1 << 20;

/// Slots that there is room for at first.
const SMALLEST: usize = 4096;

/// Tells a slot in the window from an empty one; no number of a stack is so large.
pub const PRESENT: u64 = 1 << 63;

const SLOT_WORDS: usize = SLOT_BYTES / 8;

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
}

/// When a stamp's turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Now, and nobody else has the same.
    Now,
    /// After so many others.
    Later(u64),
    /// It has been told before, or never will be.
    Never,
}

impl Default for Sequence {
    fn default() -> Self {
        Self { next: 0, window: vec![[0; SLOT_WORDS]; SMALLEST], end: 0 }
    }
}

impl Sequence {
    /// Whether somebody waits for a stamp that is missing.
    pub fn waits(&self) -> bool {
        self.next < self.end
    }

    /// When it is the turn of a stamp.
    #[inline]
    pub fn turn(&self, stamp: u64) -> Turn {
        // The target can hand out a stamp twice.
        if stamp == self.next && self.window[self.index(stamp)][0] == 0 {
            return Turn::Now;
        }
        stamp.checked_sub(self.next).map_or(Turn::Never, Turn::Later)
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

    /// The next slot, if it is here.
    #[inline]
    pub fn take(&mut self) -> Option<Slot> {
        if !self.waits() {
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

    /// Gives up what is missing before the next slot that is here; answers how much that was.
    pub fn skip_gap(&mut self) -> u64 {
        let before = self.next;
        while self.waits() && self.window[self.index(self.next)][0] == 0 {
            self.next += 1;
        }
        self.next - before
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
