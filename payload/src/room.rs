//! How a record gets room in a ring: at once where only its thread writes to it, otherwise by trying, and by
//! waiting for the reader if that is wanted.

use core::sync::atomic::Ordering::Relaxed;

use heapattach_abi::{
    control,
    protocol::{NoSlot, Words},
    region, ring as rings, row,
};

use crate::{
    arch,
    cells::Cells,
    nest,
    ring::{Need, Record, Reserved, Ring},
    row::Row,
    shared_word::Place,
};

/// How often a position is tried to be had from other threads.
const TRIES: u32 = 1000;

/// Looks at a full ring before a thread sleeps between them.
const LOOKS_AWAKE: u32 = 4096;
/// Nanoseconds of the first such sleep.
const NAP: u64 = 200_000;
/// How many looks it stands for.
const NAP_WORTH: u32 = 1 << 13;
/// Each is twice as long as the one before, so often: hundreds of threads that wake up ten thousand times a
/// second leave the reader no processor. On Linux 6.18 not even where it is of another session, which has a
/// share of its own: each waking forgives the session of the target what it had too much.
const LONGER_NAPS: u32 = 9;

/// How often a thread is as patient as with a reader that makes no progress, if the reader goes on: that
/// is minutes, in which it makes room for millions of records.
const EVER: u32 = 16;

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
    // A copy stays in registers from look to look.
    let ring = *ring;
    let mut patience = Patience::new(cells, need);
    let mut tries = TRIES;
    while tries > 0 {
        match ring.reserve(need.is_urgent) {
            Ok(reserved) => {
                row.add(row::WAITED, u64::from(patience.looks != 0));
                return Some(reserved);
            }
            Err(NoSlot::Contended) => tries -= 1,
            Err(NoSlot::Full) => {
                let stuck_at = ring.region.acquire(ring.head() + rings::TAIL).wrapping_add(1);
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
/// room that it makes; and only so long once that makes no progress.
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
        // If the reader has made no progress since another thread gave up, each would wait as long in turn.
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
        // Once the hooks are off a detach waits for every thread to leave them.
        let longest = if cells.is_enabled() { LONGER_NAPS } else { 0 };
        let longer = self.naps.min(longest);
        self.naps = longer + 1;
        arch::sleep(NAP << longer);
        NAP_WORTH << longer
    }
}

/// Where a record that found no room is counted.
fn dropped(record_is_urgent: bool) -> usize {
    if record_is_urgent { row::DROPPED_FREES } else { row::DROPPED_BLOCKS }
}
