//! Writing records, by the steps of [`heapattach_abi::protocol`].

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    control,
    protocol::{self, NoSlot, Words},
    region,
    ring::{self, Kind, RING_HEAD_BYTES, SLOT_BYTES},
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
    region: Place,
    slot: usize,
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
    if bits == 0 {
        // A child that was forked in the middle of a slow path: what it does is not asked for.
        return None;
    }
    let number = row.field(row::RING).get() as usize & (ring::RINGS - 1);
    let head = region::RING_HEADS_AT + number * RING_HEAD_BYTES;
    let capacity = 1_u64 << bits;
    let mut patience = control.at(control::RING_PATIENCE).half().load(Relaxed);
    let mut tries = TRIES;
    while tries > 0 {
        let reserved = if ring::is_own(number) {
            protocol::reserve(&Own(region), head, capacity, record_is_urgent)
        } else {
            protocol::reserve(&region, head, capacity, record_is_urgent)
        };
        match reserved {
            Ok(position) => {
                let index = (position & (capacity - 1)) as usize;
                let slot = region::SLOTS_AT + (number << bits | index) * SLOT_BYTES;
                let stamp = region.at(region::STAMP).word().fetch_add(1, AcqRel);
                return Some(Reserved { region, slot, position, stamp });
            }
            Err(NoSlot::Contended) => tries -= 1,
            Err(NoSlot::Full) => {
                let stuck_at = region.acquire(head + ring::TAIL).wrapping_add(1);
                if patience == 0 || row.field(row::GAVE_UP_AT).get() == stuck_at {
                    row.field(row::GAVE_UP_AT).set(stuck_at);
                    break;
                }
                patience -= 1;
                arch::pause();
            }
        }
    }
    row.add(if record_is_urgent { row::DROPPED_FREES } else { row::DROPPED_BLOCKS }, 1);
    None
}

impl Reserved {
    /// Fills the slot; answers the stamp.
    pub(crate) fn fill(self, record: &Record) -> u64 {
        let packed = ring::pack(record.address, record.kind, record.hook, record.interval_number);
        let rest = [packed, record.size, self.stamp];
        protocol::fill(&self.region, self.slot, self.position, record.stack, rest);
        self.stamp
    }
}

/// Writes a record; answers its stamp, unless it found no room.
pub(crate) fn push(cells: &Cells, row: &Row, record: &Record) -> Option<u64> {
    reserve(cells, row, record.is_urgent()).map(|slot| slot.fill(record))
}

/// A ring that only this thread writes to: a signal handler may come in between, but nobody beside.
struct Own(Place);

impl Words for Own {
    fn get(&self, at: usize) -> u64 {
        self.0.at(at).get()
    }

    fn set(&self, at: usize, value: u64) {
        self.0.at(at).set(value);
    }

    fn acquire(&self, at: usize) -> u64 {
        self.0.at(at).word().load(Acquire)
    }

    fn release(&self, at: usize, value: u64) {
        self.0.at(at).word().store(value, Release);
    }

    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        arch::exchange_alone(self.0.at(at), old, new)
    }
}

impl Words for Place {
    fn get(&self, at: usize) -> u64 {
        self.at(at).word().load(Relaxed)
    }

    fn set(&self, at: usize, value: u64) {
        self.at(at).word().store(value, Relaxed);
    }

    fn acquire(&self, at: usize) -> u64 {
        self.at(at).word().load(Acquire)
    }

    fn release(&self, at: usize, value: u64) {
        self.at(at).word().store(value, Release);
    }

    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.at(at).word().compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }
}
