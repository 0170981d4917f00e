//! The call stack: who asked. Its frames are stored once, and a record names them by a number.
//!
//! So far only what is found without tables: the return address of the call, and the chain of frame
//! pointers where it looks like one.
//!
//! # Safety
//! Words of the thread's stack are read between the stack pointer and the end of the stack, which
//! the reader told; all of it is mapped, because the thread stands on it.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    region, row,
    stacks::{self, End, MAX_FRAMES},
};

use crate::{cells::Cells, frame::Frame, place::Place, row::Row};

/// Below the first and from the second on there is no code of a user's program.
const LOWEST_CODE: u64 = 0x1_0000;
const HIGHEST_CODE: u64 = 1 << 47;

/// A walk along the frame pointers.
#[derive(Clone)]
struct Walk {
    /// The next return address.
    next: Option<u64>,
    frame_pointer: u64,
    floor: u64,
    ceiling: u64,
}

impl Walk {
    fn new(frame: &Frame, row: &Row) -> Self {
        let pointer = frame.stack_pointer();
        let start = row.field(row::STACK_START).get();
        let end = row.field(row::STACK_END).get();
        let is_on_it = pointer >= start && pointer < end;
        Self {
            next: Some(frame.return_address),
            frame_pointer: frame.rbp,
            floor: pointer,
            ceiling: if is_on_it { end } else { 0 },
        }
    }

    fn end(&self, frames: usize) -> End {
        match () {
            () if frames >= MAX_FRAMES => End::Full,
            () if self.ceiling == 0 => End::Unbounded,
            () => End::Implausible,
        }
    }
}

impl Iterator for Walk {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let address = self.next.take()?;
        let at = self.frame_pointer;
        let last = self.ceiling.saturating_sub(16);
        if at.is_multiple_of(8) && at > self.floor && at <= last {
            // SAFETY: two words between the stack pointer and the end of this thread's stack.
            let here = unsafe { Place::new(at) };
            let up = here.at(8).get();
            if (LOWEST_CODE..HIGHEST_CODE).contains(&up)
                && !(self.floor..self.ceiling).contains(&up)
            {
                self.next = Some(up);
            }
            (self.floor, self.frame_pointer) = (at, here.get());
        }
        Some(address)
    }
}

/// The number of the stack that led here; 0 if there is no room for another.
pub(crate) fn capture(cells: &Cells, frame: &Frame, row: &Row) -> u32 {
    let walk = Walk::new(frame, row);
    let (mut hash, mut frames) = (1_u64, 0_usize);
    for address in walk.clone().take(MAX_FRAMES) {
        hash = stacks::hash_step(hash, address);
        frames += 1;
    }
    let end = walk.end(frames);
    hash = stacks::hash_step(hash, (frames as u64) << 8 | end as u64) | 1;
    let region = cells.region();
    let mut index = hash as usize >> 7;
    for _ in 0..stacks::PROBES {
        index &= stacks::STACKS - 1;
        let entry = region.at(region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES);
        let number = index as u32 + 1;
        match entry.word().compare_exchange(0, hash, AcqRel, Acquire) {
            // One that somebody is still storing is stored once more: whoever reads a record shall
            // find its stack whole, and who stores it may be a thread that this one interrupted.
            Err(known) if known == hash && entry.at(8).word().load(Acquire) != 0 => return number,
            Err(_) => index += 1,
            Ok(_) => {
                store(region, entry, walk, frames, end);
                return number;
            }
        }
    }
    region.at(region::STACKS_LOST).word().fetch_add(1, Relaxed);
    0
}

/// Writes the frames of a new stack. Without room for them it stays one without frames.
fn store(region: Place, entry: Place, walk: Walk, frames: usize, end: End) {
    let taken = region.at(region::STACK_WORDS_TAKEN).word().fetch_add(frames as u64, Relaxed);
    if taken.wrapping_add(frames as u64) > stacks::STACK_WORDS as u64 {
        region.at(region::STACKS_LOST).word().fetch_add(1, Relaxed);
        entry.at(8).word().store(stacks::describe(0, 0, end), Release);
        return;
    }
    let words = region.at(region::STACK_WORDS_AT + taken as usize * 8);
    for (i, address) in walk.take(frames).enumerate() {
        words.at(i * 8).set(address);
    }
    let description = stacks::describe(taken as u32, frames as u8, end);
    entry.at(8).word().store(description, Release);
}
