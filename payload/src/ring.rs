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
    let ring = Ring::of(cells, row)?;
    let own = ring.reserve_own(record_is_urgent);
    if own.is_some() { own } else { reserve_patiently(cells, row, &ring, record_is_urgent) }
}

/// The same in a ring that others write to as well, or that is full.
#[cold]
#[inline(never)]
fn reserve_patiently(
    cells: &Cells,
    row: &Row,
    ring: &Ring,
    record_is_urgent: bool,
) -> Option<Reserved> {
    let (head, capacity) = (ring.head(), ring.capacity());
    let mut patience = cells.control().at(control::RING_PATIENCE).half().load(Relaxed);
    let yield_mask = cells.control().at(control::YIELD_MASK).half().load(Relaxed);
    let mut tries = TRIES;
    while tries > 0 {
        let reserved = if ring::is_own(ring.number) {
            protocol::reserve(&Own(ring.region), head, capacity, record_is_urgent)
        } else {
            protocol::reserve(&ring.region, head, capacity, record_is_urgent)
        };
        match reserved {
            Ok(position) => return Some(ring.reserved(position)),
            Err(NoSlot::Contended) => tries -= 1,
            Err(NoSlot::Full) => {
                let stuck_at = ring.region.acquire(head + ring::TAIL).wrapping_add(1);
                if patience == 0 || row.field(row::GAVE_UP_AT).get() == stuck_at {
                    row.field(row::GAVE_UP_AT).set(stuck_at);
                    break;
                }
                patience -= 1;
                // The reader may be waiting for this very processor.
                if yield_mask != 0 && patience & yield_mask == 0 {
                    if cells.is_overdue() {
                        break;
                    }
                    arch::yield_processor();
                } else {
                    arch::pause();
                }
            }
        }
    }
    row.add(dropped(record_is_urgent), 1);
    None
}

/// Where a record that found no room is counted.
fn dropped(record_is_urgent: bool) -> usize {
    if record_is_urgent { row::DROPPED_FREES } else { row::DROPPED_BLOCKS }
}

/// The ring that a thread writes to.
struct Ring {
    region: Place,
    number: usize,
    bits: u32,
}

impl Ring {
    /// None in a child that was forked in the middle of a slow path: what it does is not asked for.
    #[inline(always)]
    fn of(cells: &Cells, row: &Row) -> Option<Self> {
        let bits = cells.control().at(control::RING_BITS).half().load(Relaxed) & 31;
        let number = row.field(row::RING).get() as usize & (ring::RINGS - 1);
        (bits != 0).then(|| Self { region: cells.region(), number, bits })
    }

    fn head(&self) -> usize {
        region::RING_HEADS_AT + self.number * RING_HEAD_BYTES
    }

    fn capacity(&self) -> u64 {
        1 << self.bits
    }

    /// The next slot, if nobody else writes to the ring and it has one.
    #[inline(always)]
    fn reserve_own(&self, record_is_urgent: bool) -> Option<Reserved> {
        if !ring::is_own(self.number) {
            return None;
        }
        let own = &Own(self.region);
        let reserved = protocol::reserve(own, self.head(), self.capacity(), record_is_urgent);
        reserved.ok().map(|position| self.reserved(position))
    }

    /// The slot at a position that is ours, with the next stamp.
    #[inline(always)]
    fn reserved(&self, position: u64) -> Reserved {
        let index = (position & (self.capacity() - 1)) as usize;
        let slot = region::SLOTS_AT + (self.number << self.bits | index) * SLOT_BYTES;
        let stamp = self.region.at(region::STAMP).word().fetch_add(1, AcqRel);
        Reserved { region: self.region, slot, position, stamp }
    }
}

impl Reserved {
    /// Fills the slot; answers the stamp.
    #[inline(always)]
    pub(crate) fn fill(self, record: &Record) -> u64 {
        let packed = ring::pack(record.address, record.kind, record.hook, record.interval_number);
        let rest = [packed, record.size, self.stamp];
        protocol::fill(&self.region, self.slot, self.position, record.stack, rest);
        self.stamp
    }
}

/// Writes a record; answers its stamp, unless it found no room.
#[inline(always)]
pub(crate) fn push(cells: &Cells, row: &Row, record: &Record) -> Option<u64> {
    let ring = Ring::of(cells, row)?;
    match ring.reserve_own(record.is_urgent()) {
        Some(slot) => Some(slot.fill(record)),
        None => {
            reserve_patiently(cells, row, &ring, record.is_urgent()).map(|slot| slot.fill(record))
        }
    }
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
