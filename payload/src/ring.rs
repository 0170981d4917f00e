//! Writing records, by the steps of [`heapattach_abi::protocol`].

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    control,
    kind::HookKind,
    protocol::{self, NoSlot, Words},
    region,
    ring::{self, Kind, RING_HEAD_BYTES, SLOT_BYTES},
    row,
};

use crate::{arch, cells::Cells, row::Row, shared_word::Place};

/// What room a record needs.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    /// Losing it would invent a leak: it may use what is kept for such.
    pub is_urgent: bool,
    /// It is of a call of the kernel.
    pub is_mapping: bool,
}

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

    /// Its address with all that is small.
    pub(crate) fn packed(&self) -> u64 {
        ring::pack(self.address, self.kind, self.hook, self.interval_number)
    }

    pub(crate) fn need(&self) -> Need {
        let is_urgent =
            matches!(self.kind, Kind::FreedSample | Kind::Freed | Kind::Unmapped | Kind::Restored);
        Need { is_urgent, is_mapping: is_of_kernel(self.hook, self.kind) }
    }

    /// The same for what [`crate::room::reserve`] is asked for, before it is known in full.
    pub(crate) fn need_of(hook: usize, kind: Kind) -> Need {
        Need { is_urgent: false, is_mapping: is_of_kernel(hook, kind) }
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

fn is_of_kernel(hook: usize, kind: Kind) -> bool {
    const FIRST: usize = HookKind::Map.first_hook();
    const END: usize = HookKind::Remap.first_hook() + HookKind::Remap.hooks();
    (FIRST..END).contains(&hook) || matches!(kind, Kind::Broke | Kind::Discarded)
}

/// The ring that a thread writes to.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    pub region: Place,
    number: usize,
    bits: u32,
}

impl Ring {
    /// None in a child that was forked in the middle of a slow path: what it does is not asked for.
    #[inline(always)]
    pub(crate) fn of(cells: &Cells, row: &Row) -> Option<Self> {
        let bits = cells.control().at(control::RING_BITS).half().load(Relaxed) & 31;
        let number = row.field(row::RING).get() as usize & (ring::RINGS - 1);
        (bits != 0).then(|| Self { region: cells.region(), number, bits })
    }

    pub(crate) fn head(&self) -> usize {
        region::RING_HEADS_AT + self.number * RING_HEAD_BYTES
    }

    fn capacity(&self) -> u64 {
        1 << self.bits
    }

    /// The next slot, if no other thread writes to the ring and it has one.
    #[inline(always)]
    pub(crate) fn reserve_own(&self, record_is_urgent: bool) -> Option<Reserved> {
        if !ring::is_own(self.number) {
            return None;
        }
        let own = &Own(self.region);
        let reserved = protocol::reserve(own, self.head(), self.capacity(), record_is_urgent);
        reserved.ok().map(|position| self.reserved(position))
    }

    /// The next slot, whether one thread writes to the ring or many.
    #[inline(always)]
    pub(crate) fn reserve(&self, record_is_urgent: bool) -> Result<Reserved, NoSlot> {
        let (head, capacity) = (self.head(), self.capacity());
        let reserved = if ring::is_own(self.number) {
            protocol::reserve(&Own(self.region), head, capacity, record_is_urgent)
        } else {
            protocol::reserve(&self.region, head, capacity, record_is_urgent)
        };
        reserved.map(|position| self.reserved(position))
    }

    /// The slot at a position that is ours, with the next stamp.
    #[inline(always)]
    fn reserved(&self, position: u64) -> Reserved {
        self.slot(position, self.region.at(region::STAMP).word().fetch_add(1, AcqRel))
    }

    #[inline(always)]
    fn slot(&self, position: u64, stamp: u64) -> Reserved {
        let index = (position & (self.capacity() - 1)) as usize;
        let slot = region::SLOTS_AT + (self.number << self.bits | index) * SLOT_BYTES;
        Reserved { region: self.region, slot, position, stamp }
    }
}

/// A slot that is filled later, by the thread that took it.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub position: u64,
    pub stamp: u64,
}

impl Waiting {
    /// Fills the slot, in the ring of the row that it was taken with.
    pub(crate) fn fill(self, cells: &Cells, row: &Row, record: &Record) {
        if let Some(ring) = Ring::of(cells, row) {
            ring.slot(self.position, self.stamp).fill(record);
        }
    }
}

impl Reserved {
    /// It will be filled later. Soon: the reader waits for it.
    pub(crate) fn wait(self) -> Waiting {
        Waiting { position: self.position, stamp: self.stamp }
    }

    /// Fills the slot; answers the stamp.
    #[inline(always)]
    pub(crate) fn fill(self, record: &Record) -> u64 {
        let rest = [record.packed(), record.size, self.stamp];
        protocol::fill(&self.region, self.slot, self.position, record.stack, rest);
        self.stamp
    }
}

/// A ring that only this thread writes to: a signal handler may come in between, but no other thread beside.
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
