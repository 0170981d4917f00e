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

use crate::{arch, cells::Cells, nest, place::Place, row::Row};

/// How often a position is tried to be had from other threads.
const TRIES: u32 = 1000;

/// Looks at a full ring before a thread sleeps between them.
const LOOKS_AWAKE: u32 = 4096;
/// Nanoseconds of the first such sleep.
const NAP: u64 = 200_000;
/// How many looks it stands for.
const NAP_WORTH: u32 = 1 << 13;
/// Each is twice as long as the one before, so often: hundreds of threads that wake up all the time leave
/// the reader no processor.
const LONGER_NAPS: u32 = 6;

/// How often a thread is as patient as it is with a reader that stands still, if the reader does not: that
/// is minutes, in which it makes room for millions of records.
const EVER: u32 = 16;

/// What room a record needs.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    /// Losing it would invent a leak: it may use what is kept for such.
    pub is_urgent: bool,
    /// It is of a mapping.
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

    fn need(&self) -> Need {
        let is_urgent =
            matches!(self.kind, Kind::FreedSample | Kind::Freed | Kind::Unmapped | Kind::Restored);
        Need { is_urgent, is_mapping: is_of_mappings(self.hook) }
    }

    /// The same for what [`reserve`] is asked for, before it is known in full.
    pub(crate) fn need_of(hook: usize) -> Need {
        Need { is_urgent: false, is_mapping: is_of_mappings(hook) }
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
pub(crate) fn reserve(cells: &Cells, row: &Row, need: Need) -> Option<Reserved> {
    let ring = Ring::of(cells, row)?;
    let own = ring.reserve_own(need.is_urgent);
    if own.is_some() { own } else { reserve_patiently(cells, row, &ring, need) }
}

/// The same in a ring that others write to as well, or that is full.
#[cold]
#[inline(never)]
fn reserve_patiently(cells: &Cells, row: &Row, ring: &Ring, need: Need) -> Option<Reserved> {
    let (head, capacity) = (ring.head(), ring.capacity());
    let mut patience = Patience::new(cells, need);
    let mut tries = TRIES;
    while tries > 0 {
        let reserved = if ring::is_own(ring.number) {
            protocol::reserve(&Own(ring.region), head, capacity, need.is_urgent)
        } else {
            protocol::reserve(&ring.region, head, capacity, need.is_urgent)
        };
        match reserved {
            Ok(position) => {
                row.add(row::WAITED, u64::from(patience.looks != 0));
                return Some(ring.reserved(position));
            }
            Err(NoSlot::Contended) => tries -= 1,
            Err(NoSlot::Full) => {
                let stuck_at = ring.region.acquire(head + ring::TAIL).wrapping_add(1);
                let is_in_vain = row.field(row::GAVE_UP_AT).get() == stuck_at;
                if patience.is_at_half() {
                    nest::hurry(cells, row);
                }
                if is_in_vain || !patience.wait(cells, ring.region) {
                    row.field(row::GAVE_UP_AT).set(stuck_at);
                    break;
                }
            }
        }
    }
    row.add(dropped(need.is_urgent), 1);
    None
}

/// How much longer a thread waits for room: as long as the reader is at work, since others may take the
/// room that it makes; and only so long once that stands still.
struct Patience {
    /// All of it, what is left of it since the reader was last seen at work, and what there is in any case.
    whole: u32,
    left: u32,
    ever: u32,
    /// Until what is pending is hurried up.
    half: u32,
    has_hurried: bool,
    looks: u32,
    naps: u32,
    /// One more than the reader had looked by then.
    looked: u64,
    yield_mask: u32,
}

impl Patience {
    fn new(cells: &Cells, need: Need) -> Self {
        let of = if need.is_mapping { control::MAP_PATIENCE } else { control::RING_PATIENCE };
        let whole = cells.control().at(of).half().load(Relaxed);
        let yield_mask = cells.control().at(control::YIELD_MASK).half().load(Relaxed);
        let (left, ever, half) = (whole, whole.saturating_mul(EVER), whole / 2);
        let (has_hurried, looks, naps, looked) = (false, 0, 0, 0);
        Self { whole, left, ever, half, has_hurried, looks, naps, looked, yield_mask }
    }

    /// Once, when half of it is spent, whatever the reader does.
    fn is_at_half(&mut self) -> bool {
        let is_there = self.half == 0 && self.whole != 0 && !self.has_hurried;
        self.has_hurried |= is_there;
        is_there
    }

    /// Waits for a moment; `false` if that has no use any more.
    fn wait(&mut self, cells: &Cells, region: Place) -> bool {
        // If the reader has stood still since another thread gave up, each would wait as long in turn.
        let looked = region.at(region::LOOKED).get().wrapping_add(1);
        if self.left == 0 || region.at(region::GAVE_UP).get() == looked {
            return false;
        }
        if self.looked != looked {
            self.looked = looked;
            self.left = self.whole.min(self.ever);
        }
        let took = self.rest(cells);
        self.left = self.left.saturating_sub(took);
        self.ever = self.ever.saturating_sub(took);
        self.half = self.half.saturating_sub(took);
        if self.left == 0 && self.ever != 0 {
            region.at(region::GAVE_UP).set(looked);
        }
        self.left != 0
    }

    /// Answers how much patience it took.
    fn rest(&mut self, cells: &Cells) -> u32 {
        self.looks = self.looks.wrapping_add(1);
        if self.yield_mask == 0 || self.looks & self.yield_mask != 0 {
            arch::pause();
            return 1;
        }
        if cells.is_overdue() {
            return u32::MAX;
        }
        // The reader may be waiting for this very processor, or sleep itself.
        if self.looks < LOOKS_AWAKE {
            arch::yield_processor();
            return 1;
        }
        let longer = self.naps.min(LONGER_NAPS);
        self.naps = longer + 1;
        arch::sleep(NAP << longer);
        NAP_WORTH << longer
    }
}

fn is_of_mappings(hook: usize) -> bool {
    const FIRST: usize = HookKind::Map.first_hook();
    const END: usize = HookKind::Remap.first_hook() + HookKind::Remap.hooks();
    (FIRST..END).contains(&hook)
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

/// Writes a record; answers its stamp, unless it found no room.
#[inline(always)]
pub(crate) fn push(cells: &Cells, row: &Row, record: &Record) -> Option<u64> {
    let ring = Ring::of(cells, row)?;
    let need = record.need();
    match ring.reserve_own(need.is_urgent) {
        Some(slot) => Some(slot.fill(record)),
        None => reserve_patiently(cells, row, &ring, need).map(|slot| slot.fill(record)),
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
