//! Calls of hooked functions by hooked functions, which are one allocation together
//! ([`heapattach_abi::nest`]). Only in sessions that were told of such functions: every call then has a
//! frame of ours, so that it is known what runs in the middle of it.
//!
//! A signal handler may come between any two instructions, and call what is hooked: its calls are then
//! in the middle of the one that it interrupts, and find and leave everything consistent.

use heapattach_abi::{kind::HookKind, nest, ring, row};

use crate::{
    arch,
    cells::Cells,
    frame::Frame,
    ring::{Record, Reserved, Waiting},
    row::{Row, sane},
    shared_word::Place,
    table,
};

/// Calls in the middle of this one are known.
pub(crate) const OUTER: u64 = 32;
/// It is in the middle of another one.
pub(crate) const INNER: u64 = 64;

const POINTER_BITS: u32 = 48;

/// Where a row remembers the calls of one kind, those of blocks or those of maps: a call is only ever in
/// the middle of one of its own. A word and no table, which would be copied by vector registers.
#[derive(Clone, Copy)]
struct Level {
    is_of_maps: bool,
}

const BLOCKS: Level = Level { is_of_maps: false };
const MAPS: Level = Level { is_of_maps: true };

impl Level {
    fn of(frame: &Frame) -> Self {
        match frame.kind() {
            Some(HookKind::Map | HookKind::Unmap | HookKind::Remap) => MAPS,
            _ => BLOCKS,
        }
    }

    /// The stack pointer of the call that the thread is in the middle of.
    fn pointer(self, row: &Row) -> Place {
        row.field(if self.is_of_maps { row::MAP_NEST_POINTER } else { row::NEST_POINTER })
    }

    /// What that call frees.
    fn given(self, row: &Row) -> Place {
        row.field(if self.is_of_maps { row::MAP_NEST_PAGES } else { row::NEST_BLOCK })
    }

    /// How much is pending.
    fn count(self, row: &Row) -> Place {
        row.field(if self.is_of_maps { row::MAP_NEST_COUNT } else { row::NEST_COUNT })
    }

    fn entry(self, row: &Row, number: u64) -> Place {
        let number = number as usize & (nest::PENDING - 1);
        let all = if self.is_of_maps { row::MAP_PENDING_AT } else { row::PENDING_AT };
        row.field(all + number * nest::PENDING_BYTES)
    }

    /// What is handed on, in one word: a block's address, or pages; 0: nothing.
    fn word(self, got: u64, size: u64) -> u64 {
        if self.is_of_maps && got != 0 { nest::pack_pages(got, size) } else { got }
    }

    /// Whether what is pending is a part of what was handed on.
    fn is_part(self, pending: &Pending, handed_on: u64) -> bool {
        let address = pending.packed & ring::ADDRESS_MASK;
        if self.is_of_maps {
            nest::share_pages(handed_on, nest::pack_pages(address, pending.size))
        } else {
            handed_on != 0 && handed_on.wrapping_sub(address) < pending.size.max(1)
        }
    }
}

/// Before the original: whether this call may be in the middle of another one of its kind, and is.
#[inline(always)]
pub(crate) fn begin(frame: &mut Frame, cells: &Cells, row: &Row) -> u64 {
    let level = Level::of(frame);
    let is_looked_at = if level.is_of_maps { cells.nests_maps() } else { cells.nests() };
    // The shared row does not tell whose call it is.
    if is_looked_at && !row.is_shared() { enter(frame, cells, row, level) } else { 0 }
}

#[inline(never)]
fn enter(frame: &mut Frame, cells: &Cells, row: &Row, level: Level) -> u64 {
    let pointer = frame.stack_pointer();
    let mut outer = level.pointer(row).get();
    let is_inner = pointer < outer && outer - pointer < nest::REACH;
    // An outer call that was left by a jump is none any more. One that is far away may be on another
    // stack, which this thread goes back to.
    if !is_inner && pointer.abs_diff(outer) < nest::REACH {
        outer = 0;
    }
    if outer == 0 {
        settle(cells, row, level, 0, 0);
    }
    frame.outer = outer | level.count(row).get() << POINTER_BITS;
    frame.outer_given = level.given(row).get();
    level.given(row).set(0);
    level.pointer(row).set(pointer);
    if is_inner { OUTER | INNER } else { OUTER }
}

/// Before a block is freed: whether that is a part of what the outer call does anyway.
#[inline(always)]
pub(crate) fn gives_back_the_same(frame: &Frame, cells: &Cells, row: &Row, block: u64) -> bool {
    frame.begun & OUTER != 0 && goes(frame, cells, row, block)
}

#[inline(never)]
fn goes(frame: &Frame, cells: &Cells, row: &Row, block: u64) -> bool {
    row.field(row::NEST_BLOCK).set(block);
    if frame.begun & INNER == 0 {
        return false;
    }
    // One that goes again in the middle of the same call was never a part of what that allocates.
    for number in 0..row.field(row::NEST_COUNT).get() {
        let entry = BLOCKS.entry(row, number);
        let packed = entry.get();
        if packed & ring::ADDRESS_MASK == block && arch::exchange_alone(entry, packed, 0) {
            resolve(cells, row, BLOCKS, &taken(entry, packed), 0);
        }
    }
    block == frame.outer_given
}

/// The same of pages: whether the outer call unmaps any of them anyway. What it unmaps besides lies
/// around the pages that it allocated, and was never counted.
#[inline(never)]
pub(crate) fn unmaps_the_same(
    frame: &Frame,
    cells: &Cells,
    row: &Row,
    at: u64,
    length: u64,
) -> bool {
    if frame.begun & OUTER == 0 {
        return false;
    }
    let pages = nest::pack_pages(at, length);
    row.field(row::MAP_NEST_PAGES).set(pages);
    if frame.begun & INNER == 0 {
        return false;
    }
    // What is cut off of a mapping that is pending leaves the rest of it pending.
    for number in 0..row.field(row::MAP_NEST_COUNT).get() {
        let entry = MAPS.entry(row, number);
        let packed = entry.get();
        let pending = taken(entry, packed);
        let mapped = nest::pack_pages(packed & ring::ADDRESS_MASK, pending.size);
        if packed != 0 && nest::has_pages(pages, mapped) && arch::exchange_alone(entry, packed, 0) {
            resolve(cells, row, MAPS, &pending, 0);
        }
    }
    nest::share_pages(pages, frame.outer_given)
}

/// After the original: what was allocated in the middle of the call, of which so many bytes at this
/// place were handed on.
#[inline(always)]
pub(crate) fn end(frame: &Frame, cells: &Cells, row: &Row, got: u64, size: u64) {
    if frame.begun & OUTER != 0 && cells.is_at_home() {
        leave(frame, cells, row, got, size);
    }
}

#[inline(never)]
fn leave(frame: &Frame, cells: &Cells, row: &Row, got: u64, size: u64) {
    let level = Level::of(frame);
    settle(cells, row, level, frame.outer >> POINTER_BITS, level.word(got, size));
    level.given(row).set(frame.outer_given);
    level.pointer(row).set(frame.outer & ((1 << POINTER_BITS) - 1));
}

/// A block or a mapping was allocated in the middle of another call: it is pending, with its record if
/// that has a place. Where there is no room, it is one of its own.
pub(crate) fn came(
    frame: &Frame,
    cells: &Cells,
    row: &Row,
    record: &Record,
    slot: Option<Reserved>,
) {
    let level = Level::of(frame);
    let waiting = slot.map(Reserved::wait);
    let pending = Pending {
        packed: record.packed(),
        size: record.size,
        stack: u64::from(record.stack),
        waiting,
    };
    let count = level.count(row);
    loop {
        let number = count.get();
        if number >= nest::PENDING as u64 {
            return resolve(cells, row, level, &pending, 0);
        }
        if arch::exchange_alone(count, number, number + 1) {
            return pending.store(level.entry(row, number));
        }
    }
}

/// What is pending is recorded now, as blocks of their own: the ring has been full for long, and it may
/// be for them that the reader waits.
#[cold]
pub(crate) fn hurry(cells: &Cells, row: &Row) {
    if !row.is_shared() {
        if cells.nests() {
            settle(cells, row, BLOCKS, 0, 0);
        }
        if cells.nests_maps() {
            settle(cells, row, MAPS, 0, 0);
        }
    }
}

/// Decides about what is pending from this one on.
#[inline(never)]
fn settle(cells: &Cells, row: &Row, level: Level, from: u64, handed_on: u64) {
    let count = level.count(row);
    loop {
        let number = count.get();
        if number <= from {
            return;
        }
        // A program that wrote over it may have put anything there.
        let most = nest::PENDING as u64;
        if number > most {
            arch::exchange_alone(count, number, most);
            continue;
        }
        let entry = level.entry(row, number - 1);
        let packed = entry.get();
        let pending = taken(entry, packed);
        // If it fails, a handler has left another one.
        if arch::exchange_alone(count, number, number - 1) && packed != 0 {
            entry.set(0);
            resolve(cells, row, level, &pending, handed_on);
        }
    }
}

/// What is pending no more: a part of what was handed on, or something of its own.
fn resolve(cells: &Cells, row: &Row, level: Level, pending: &Pending, handed_on: u64) {
    let address = pending.packed & ring::ADDRESS_MASK;
    let (kind, hook, interval_number) = ring::parts(pending.packed);
    let is_part = level.is_part(pending, handed_on);
    if !is_part {
        row.count(hook, sane(pending.size));
    }
    let Some(waiting) = &pending.waiting else { return };
    let kind = match kind {
        Some(kind) if !is_part => kind,
        _ => ring::Kind::Nothing,
    };
    if is_part && !level.is_of_maps && !cells.is_by_address() {
        table::remove(cells, address);
    }
    let (size, stack) = (pending.size, pending.stack as u32);
    let interval_number = interval_number as u8;
    waiting.fill(cells, row, &Record { kind, address, size, stack, hook, interval_number });
}

/// [`nest::Pending`], out of the row.
struct Pending {
    packed: u64,
    size: u64,
    stack: u64,
    waiting: Option<Waiting>,
}

impl Pending {
    fn store(&self, entry: Place) {
        let mut stack = self.stack;
        if let Some(Waiting { position, stamp }) = self.waiting {
            entry.at(nest::POSITION).set(position);
            entry.at(nest::STAMP).set(stamp);
            stack |= nest::HAS_RECORD;
        }
        entry.at(nest::SIZE).set(self.size);
        entry.at(nest::STACK).set(stack);
        // Last: it says that the rest is there.
        entry.set(self.packed);
    }
}

fn taken(entry: Place, packed: u64) -> Pending {
    let (size, stack) = (entry.at(nest::SIZE).get(), entry.at(nest::STACK).get());
    let (position, stamp) = (entry.at(nest::POSITION).get(), entry.at(nest::STAMP).get());
    let waiting = (stack & nest::HAS_RECORD != 0).then_some(Waiting { position, stamp });
    Pending { packed, size, stack: stack & !nest::HAS_RECORD, waiting }
}
