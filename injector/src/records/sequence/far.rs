//! Slots whose stamps are beyond the window. In a ring that several threads write to, what the window
//! waits for can be behind such a slot: its thread had taken the place and lost its processor before it
//! took the number. So they make way, a few of each ring.

use std::collections::BTreeMap;

use heapattach_abi::ring::RINGS;

use super::Slot;

/// Of one ring, at most: as each thread writes one record at a time, more than there are threads of a
/// ring.
const MOST: u16 = 1024;

/// With those that were passed over when their ring was read, which can stay there no longer: no more than
/// there are threads of a ring either.
const MOST_WITH_LATE: u16 = 2 * MOST;

/// The slots, each with its ring.
#[derive(Debug)]
pub struct Far {
    slots: BTreeMap<u64, (Slot, usize)>,
    counts: [u16; RINGS],
}

impl Default for Far {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), counts: [0; RINGS] }
    }
}

impl Far {
    /// Keeps a slot of a ring, if there is room and no other with its stamp.
    pub fn keep(&mut self, ring: usize, slot: Slot) -> bool {
        self.keep_among(MOST, ring, slot)
    }

    /// The same of a slot that was passed over before.
    pub fn keep_late(&mut self, ring: usize, slot: Slot) -> bool {
        self.keep_among(MOST_WITH_LATE, ring, slot)
    }

    fn keep_among(&mut self, most: u16, ring: usize, slot: Slot) -> bool {
        let Some(count) = self.counts.get_mut(ring).filter(|count| **count < most) else {
            return false;
        };
        let is_new = !self.slots.contains_key(&slot[3]);
        if is_new {
            *count += 1;
            self.slots.insert(slot[3], (slot, ring));
        }
        is_new
    }

    /// The next slot before this stamp.
    pub fn take_before(&mut self, end: u64) -> Option<Slot> {
        let entry = self.slots.first_entry().filter(|entry| *entry.key() < end)?;
        let (slot, ring) = entry.remove();
        self.counts[ring] -= 1;
        Some(slot)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Forgets all of them; answers how many there were.
    pub fn forget(&mut self) -> u64 {
        let count = self.slots.len() as u64;
        *self = Self::default();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(stamp: u64) -> Slot {
        [0, 0, 0, stamp]
    }

    #[test]
    fn each_ring_has_room_for_some_and_those_that_are_near_by_now_come_first() {
        let mut far = Far::default();
        for stamp in (0..2 * u64::from(MOST)).rev() {
            assert_eq!(far.keep(40, slot(10 + stamp)), stamp >= u64::from(MOST), "{stamp}");
        }
        assert!(far.keep(41, slot(3)) && !far.keep(41, slot(3)) && !far.keep(RINGS, slot(1)));
        assert_eq!(far.take_before(3), None);
        assert_eq!(far.take_before(1100), Some(slot(3)));
        assert_eq!(far.take_before(1100), Some(slot(10 + u64::from(MOST))));
        assert!(far.keep(40, slot(7)), "there is room again");
        assert!(
            !far.keep(40, slot(8)) && far.keep_late(40, slot(8)),
            "of one that was passed over"
        );
        assert_eq!((far.forget(), far.is_empty()), (1 + u64::from(MOST), true));
    }
}
