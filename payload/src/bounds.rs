//! Which memory is the stack that a thread stands on: only that may be read without asking the kernel,
//! from the stack pointer upwards.
//!
//! # Safety
//! The words read here belong to the thread's own control block, which is mapped for as long as the
//! thread runs, or lie in the same page as it.
#![allow(unsafe_code)]

use heapattach_abi::{region, row};

use crate::{arch, row::Row, shared_word::Place};

const PAGE: u64 = 4096;
/// No thread is given more.
const LARGEST: u64 = 1 << 36;

/// The end of the stack that `pointer`, the stack pointer of this thread, points into; if that is not
/// known, that of its page, which is mapped since the thread stands on it. And whether it is known.
#[inline(always)]
pub(crate) fn end_of_stack(region: Place, row: &Row, pointer: u64) -> (u64, bool) {
    let first = region.at(region::FIRST_STACK).get()..region.at(region::FIRST_STACK_END).get();
    if first.contains(&pointer) {
        // It grows, and does not shrink.
        let start = row.field(row::STACK_START).get();
        if !row.is_shared() && (start == 0 || pointer < start) {
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
#[inline(never)]
pub(crate) fn end_of_own_stack(row: &Row, pointer: u64) -> Option<u64> {
    if row.is_shared() {
        // Other threads write there too.
        return None;
    }
    let thread = arch::thread_pointer();
    let proof = row.field(row::STACK_PROOF);
    if proof.get() == 0 {
        proof.set(find(thread).map_or(row::NO_PROOF, |at| at - thread));
    }
    if proof.get() != row::NO_PROOF {
        // Asked again each time: a later thread may have the same thread pointer.
        let own = block_at(thread + proof.get())?.usable..thread;
        return own.contains(&pointer).then_some(thread);
    }
    let known = row.field(row::STACK_START).get()..row.field(row::STACK_END).get();
    known.contains(&pointer).then_some(known.end)
}

struct Block {
    usable: u64,
    end: u64,
}

/// Three words of the thread control block: the block of memory that the thread was given for its
/// stack, its size, and that of the guard at its lower end.
fn block_at(address: u64) -> Option<Block> {
    // SAFETY: callers give addresses within the page of the thread control block, which is mapped
    // for as long as the thread runs.
    let [start, size, guard] = [0, 8, 16].map(|at| unsafe { Place::new(address).at(at).get() });
    let is_block = start != 0
        && (start | size | guard).is_multiple_of(PAGE)
        && guard < size
        && size < LARGEST
        && start < region::ADDRESS_END;
    is_block.then(|| Block { usable: start + guard, end: start + size })
}

/// Looks through the control block for such words that fit (glibc has them): no offset of any version
/// of the library need be known, since nothing else in there looks like a block that has the control
/// block itself at its very end.
#[cold]
#[inline(never)]
fn find(thread: u64) -> Option<u64> {
    let last = (thread | (PAGE - 1)).checked_sub(23)?;
    let mut at = thread;
    while at <= last {
        if let Some(block) = block_at(at)
            && block.usable < thread
            && thread < block.end
            && block.end - thread <= 2 * PAGE
        {
            return Some(at);
        }
        at += 8;
    }
    None
}
