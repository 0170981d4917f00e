//! Writing records.
//!
//! The protocol is written against [`Words`] alone, so that tests run the very same steps in a
//! model checker.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    control, region,
    ring::{self, Kind, RESERVE_SHIFT, RING_HEAD_BYTES, SLOT_BYTES},
    row,
};

use crate::{arch, cells::Cells, place::Place, row::Row};

/// How often a position is tried to be had from other threads.
const TRIES: u32 = 1000;

/// What a record tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub kind: Kind,
    pub address: u64,
    pub size: u64,
    pub stack: u32,
    pub hook: usize,
    pub interval_number: u8,
}

impl Record {
    /// One that no sampling had part in.
    pub(crate) fn plain(kind: Kind, hook: usize, address: u64, size: u64) -> Self {
        Self { kind, address, size, stack: 0, hook, interval_number: 0 }
    }

    /// Whether losing it would invent a leak.
    fn is_urgent(&self) -> bool {
        matches!(self.kind, Kind::FreedSample | Kind::Freed | Kind::Unmapped | Kind::Restored)
    }
}

/// A slot that is ours to fill.
pub(crate) struct Reserved {
    slot: Place,
    position: u64,
    /// The number of the record that will be written there.
    pub stamp: u64,
}

/// Takes a slot and a stamp, or counts the loss. Whatever is done with the slot, it must be filled:
/// the reader waits for it.
pub(crate) fn reserve(cells: &Cells, row: &Row, record_is_urgent: bool) -> Option<Reserved> {
    let region = cells.region();
    let control = cells.control();
    let bits = control.at(control::RING_BITS).half().load(Relaxed) & 31;
    let number = row.field(row::RING).get() as usize & (ring::RINGS - 1);
    let head = region.at(region::RING_HEADS_AT + number * RING_HEAD_BYTES);
    let capacity = 1_u64 << bits;
    let limit = if record_is_urgent { capacity } else { capacity - (capacity >> RESERVE_SHIFT) };
    let mut patience = control.at(control::RING_PATIENCE).half().load(Relaxed);
    let mut tries = TRIES;
    while tries > 0 {
        let position = head.at(ring::HEAD).get();
        // Pairs with the reader's release: what it has read may be written over from here on.
        let tail = head.at(ring::TAIL).word().load(Acquire);
        if position.wrapping_sub(tail) >= limit {
            if patience == 0 {
                break;
            }
            patience -= 1;
            arch::pause();
            continue;
        }
        let next = position.wrapping_add(1);
        let won = head.at(ring::HEAD).word().compare_exchange(position, next, AcqRel, Relaxed);
        if won.is_ok() {
            let index = (position & (capacity - 1)) as usize;
            let slots = region.at(region::SLOTS_AT + number * (SLOT_BYTES << bits));
            let stamp = region.at(region::STAMP).word().fetch_add(1, AcqRel);
            return Some(Reserved { slot: slots.at(index * SLOT_BYTES), position, stamp });
        }
        tries -= 1;
    }
    row.add(if record_is_urgent { row::DROPPED_FREES } else { row::DROPPED_BLOCKS }, 1);
    None
}

impl Reserved {
    /// Fills the slot; answers the stamp.
    pub(crate) fn fill(self, record: &Record) -> u64 {
        let packed = ring::pack(record.address, record.kind, record.hook, record.interval_number);
        self.slot.at(8).set(packed);
        self.slot.at(16).set(record.size);
        self.slot.at(24).set(self.stamp);
        // Pairs with the reader's acquire: the rest of the slot is there when its seal is.
        self.slot.word().store(ring::seal(self.position, record.stack), Release);
        self.stamp
    }
}

/// Writes a record; answers its stamp, unless it found no room.
pub(crate) fn push(cells: &Cells, row: &Row, record: &Record) -> Option<u64> {
    reserve(cells, row, record.is_urgent()).map(|slot| slot.fill(record))
}
