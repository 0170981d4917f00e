//! Which memory is the stack that a thread stands on: only that may be read without asking anybody,
//! from the stack pointer upwards.
//!
//! # Safety
//! The words read here belong to the thread's own control block, which is mapped for as long as the
//! thread runs, or lie in the same page as it.
#![allow(unsafe_code)]

use heapattach_abi::{region, row};

use crate::{arch, place::Place, row::Row};

const PAGE: u64 = 4096;
/// No thread is given more.
const LARGEST: u64 = 1 << 36;

/// The end of the stack that `pointer`, the stack pointer of this thread, points into; if nobody
/// knows, that of its page, which is mapped since the thread stands on it. And whether it is known.
pub(crate) fn end_of_stack(region: Place, row: &Row, pointer: u64) -> (u64, bool) {
    let first = region.at(region::FIRST_STACK).get()..region.at(region::FIRST_STACK_END).get();
    if first.contains(&pointer) {
        // It grows, and does not shrink.
        let start = row.field(row::STACK_START).get();
        if start == 0 || pointer < start {
            row.field(row::STACK_START).set(pointer);
            row.field(row::STACK_END).set(first.end);
        }
        return (first.end, true);
    }
    match end_of_own_stack(row, pointer) {
        Some(end) => (end, true),
        None => ((pointer | (PAGE - 1)) + 1, false),
    }
}

/// The end of this thread's own stack, if `pointer` points into what is known of it.
pub(crate) fn end_of_own_stack(row: &Row, pointer: u64) -> Option<u64> {
    let known = || row.field(row::STACK_START).get()..row.field(row::STACK_END).get();
    if !known().contains(&pointer) {
        // The first time it may have been on another stack.
        note(row, pointer);
    }
    let known = known();
    (known.contains(&pointer) && is_still_so(row, known.start)).then_some(known.end)
}

/// Finds out where the thread's own stack is, if its C library is one that tells (glibc).
#[cold]
#[inline(never)]
pub(crate) fn note(row: &Row, pointer: u64) {
    let thread = arch::thread_pointer();
    let Some((at, start)) = stack_block(thread, pointer) else { return };
    row.field(row::STACK_PROOF).set(at - thread);
    row.field(row::STACK_START).set(start);
    row.field(row::STACK_END).set(thread);
}

/// Whether a later thread with the same thread pointer still has the same stack.
fn is_still_so(row: &Row, start: u64) -> bool {
    let proof = row.field(row::STACK_PROOF).get();
    // What the reader has told holds for as long as the thread lives.
    if proof == 0 {
        return true;
    }
    // SAFETY: words of the thread's own control block.
    let block = unsafe { Place::new(arch::thread_pointer() + proof) };
    block.get().wrapping_add(block.at(16).get()) == start
}

struct Block {
    start: u64,
    size: u64,
    usable: u64,
}

/// Three words of the thread control block: the block of memory that the thread was given for its
/// stack, its size, and that of the guard at its lower end.
fn block_at(address: u64) -> Option<Block> {
    // SAFETY: see above; only addresses of the page of the control block are asked for.
    let [start, size, guard] = [0, 8, 16].map(|at| unsafe { Place::new(address).at(at).get() });
    let is_block = start != 0
        && (start | size | guard).is_multiple_of(PAGE)
        && guard < size
        && size < LARGEST
        && start < region::ADDRESS_END;
    is_block.then(|| Block { start, size, usable: start + guard })
}

/// Looks through the control block for such words that fit: no offset of any version of the library
/// need be known, since nothing else in there looks like the block that holds both the stack pointer
/// and, at its very end, the control block itself.
fn stack_block(thread: u64, pointer: u64) -> Option<(u64, u64)> {
    let last = (thread | (PAGE - 1)).checked_sub(23)?;
    let mut at = thread;
    while at <= last {
        if let Some(block) = block_at(at) {
            let end = block.start + block.size;
            let is_own = (block.usable..thread).contains(&pointer)
                && thread < end
                && end - thread <= 2 * PAGE;
            if is_own {
                return Some((at, block.usable));
            }
        }
        at += 8;
    }
    None
}
