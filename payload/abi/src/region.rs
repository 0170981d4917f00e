//! The memory that target and reader share: where everything in it is.
//!
//! ```text
//! +0  head: interval, heartbeat, counters of all threads
//!     rows of threads                                 (row)
//!     filter and table of samples                     (samples)
//!     stacks                                          (stacks)
//!     cache of rules, memos of threads, copies        (unwind, memo, copies)
//!     code of an interpreter                          (python)
//!     modules that were met before they were known    (late)
//!     counts of blocks by size; sizes of requests     (flow)
//!     rings: heads, then slots                        (ring)
//!     tables to unwind stacks by                      (unwind)
//! ```
//!
//! A byte of it may be written by the target at any time, by accident too: a reader copies first
//! and believes nothing.

use crate::{
    copies::{COPIES, COPY_BYTES},
    flow::{FLOW_BYTES, SIZES_BYTES},
    late::LATE_BYTES,
    memo::{MEMO_BYTES, MEMOS},
    python::CODES_BYTES,
    ring::{RING_HEAD_BYTES, RINGS, SLOT_BYTES},
    row::{ROW_BYTES, ROWS},
    samples::{FILTER_BYTES, TABLE_BYTES},
    stacks::{STACK_INDEX_BYTES, STACK_WORDS_BYTES},
    unwind::CACHE_BYTES,
};

/// Offset of the number that the next record gets: all records of a session are numbered.
pub const STAMP: usize = 64;
/// Offset of the number of rows that were handed out.
pub const ROWS_TAKEN: usize = 128;
/// Offset of the number of words of stacks that were handed out.
pub const STACK_WORDS_TAKEN: usize = 192;
/// Offset of the number of stacks that found no room.
pub const STACKS_LOST: usize = 256;

/// Offset of the sampling interval in bytes, its number on top ([`pack_interval`]): read and
/// written in one piece. 1 records everything.
pub const INTERVAL: usize = 320;
/// Offset of the heartbeat: hooks switch themselves off when the time-stamp counter exceeds it; 0
/// means no limit. Must stay 0 where `rdtsc` faults (strict seccomp, `PR_SET_TSC`).
pub const DEADLINE_TSC: usize = 328;

/// Offset of the word that tells where in the region the newest directory of unwind tables is; 0:
/// there is none.
pub const DIRECTORY: usize = 384;
/// Offset of the first address that the stack of the first thread can grow down to.
pub const FIRST_STACK: usize = 392;
/// Offset of the end of that stack.
pub const FIRST_STACK_END: usize = 400;

/// Offset of the number of stacks that were walked again to compare.
pub const VERIFIED: usize = 448;
/// Offset of the number of those that differed.
pub const DIFFERED: usize = 456;

/// Offset of the number of words of copied code of an interpreter.
pub const COPIED_WORDS_TAKEN: usize = 512;

/// Offset of the word of the loader ([`crate::control::Control::loads`]) that the newest directory was
/// made for.
pub const LOADS_SEEN: usize = 576;
/// Offset of the number of modules that were met before they were known.
pub const LATE_TAKEN: usize = 584;
/// Offset of the page of code that was last found to be in no module, so that it is not looked for
/// again at once.
pub const NO_MODULE: usize = 592;
/// Offset of the word of the loader for which that was found.
pub const NO_MODULE_LOADS: usize = 600;

/// Offset of the number of times that the reader has looked at the rings.
pub const LOOKED: usize = 640;
/// Offset of one more than that number when a thread last waited for the reader in vain: until it looks
/// again no thread waits.
pub const GAVE_UP: usize = 648;

/// Offset of the number of calls that are being made by which pages of the program's may go, where these are read
/// directly.
pub const PAGES_GO: usize = 704;
/// Offset of the number of those that were made by which some may have come.
pub const PAGES_CAME: usize = 712;
/// Offset of the word that says none are to be read directly any more.
pub const NOTHING_DIRECT: usize = 720;
/// There: since a thread that read did not come to its end.
pub const IN_VAIN: u64 = 1;
/// There: since the hooks are about to be taken away.
pub const AT_END: u64 = 2;
/// Offset of the end of the heap that brk was last called with; 0 before the first call.
pub const LAST_BREAK: usize = 728;
/// Offset of the number of buffers for copies that were used to read pages directly.
pub const LOOKS_USED: usize = 736;
/// Offset of the number of calls of the kernel by which memory of the program's was copied for frames of scripts.
pub const COPYING_CALLS: usize = 744;
/// Offset of the words that say of each buffer for copies which thread uses it just now, by its thread pointer, or 0; the bits
/// above count who did. It may read directly.
pub const LOOKS_AT: usize = 1024;
/// One more in such a word.
pub const ONE_LOOK: u64 = 1 << 48;

/// The thread that such a word says; 0: none.
pub const fn looker(word: u64) -> u64 {
    word & (ONE_LOOK - 1)
}

/// From here on addresses are not a program's.
pub const ADDRESS_END: u64 = 1 << 47;

const INTERVAL_BITS: u32 = 56;

/// An interval and its number in one word.
pub const fn pack_interval(interval: u64, number: u8) -> u64 {
    interval & ((1 << INTERVAL_BITS) - 1) | (number as u64) << INTERVAL_BITS
}

/// Interval and number of a word.
pub const fn split_interval(word: u64) -> (u64, u8) {
    (word & ((1 << INTERVAL_BITS) - 1), (word >> INTERVAL_BITS) as u8)
}

/// Offset of row 0.
pub const ROWS_AT: usize = 4096;
/// Offset of the filter.
pub const FILTER_AT: usize = (ROWS_AT + ROWS * ROW_BYTES).next_multiple_of(4096);
/// Offset of the table of samples.
pub const SAMPLES_AT: usize = FILTER_AT + FILTER_BYTES;
/// Offset of the index of stacks.
pub const STACK_INDEX_AT: usize = SAMPLES_AT + TABLE_BYTES;
/// Offset of the words of stacks.
pub const STACK_WORDS_AT: usize = STACK_INDEX_AT + STACK_INDEX_BYTES;
/// Offset of the cache of unwind rules.
pub const CACHE_AT: usize = STACK_WORDS_AT + STACK_WORDS_BYTES;
/// Offset of what threads remember of their stacks.
pub const MEMOS_AT: usize = CACHE_AT + CACHE_BYTES;
/// Offset of buffers for copies of stacks.
pub const COPIES_AT: usize = MEMOS_AT + MEMOS * MEMO_BYTES;
/// Offset of the table of copied code of an interpreter.
pub const CODES_AT: usize = COPIES_AT + (COPIES * COPY_BYTES).next_multiple_of(4096);
/// Offset of modules that were met before they were known.
pub const LATE_AT: usize = CODES_AT + CODES_BYTES;
/// Offset of the counts of blocks by size, row by row.
pub const FLOWS_AT: usize = LATE_AT + LATE_BYTES;
/// Offset of the sizes that requests led to.
pub const SIZES_AT: usize = FLOWS_AT + ROWS * FLOW_BYTES;
/// Offset of the heads of the rings.
pub const RING_HEADS_AT: usize = SIZES_AT + SIZES_BYTES;
/// Offset of the slots of the first ring.
pub const SLOTS_AT: usize = RING_HEADS_AT + RINGS * RING_HEAD_BYTES;

/// Offset of the unwind tables behind rings of `1 << ring_bits` slots; the region ends with them.
pub const fn tables_at(ring_bits: u32) -> usize {
    SLOTS_AT + RINGS * (SLOT_BYTES << ring_bits)
}

const _: () = assert!((COPIES_AT + crate::copies::PROVEN).is_multiple_of(64));
const _: () = assert!(LOOKS_AT + COPIES * 8 <= ROWS_AT);
const _: () = assert!(SAMPLES_AT.is_multiple_of(4096));
const _: () = assert!(STACK_INDEX_AT.is_multiple_of(4096));
const _: () = assert!(STACK_WORDS_AT.is_multiple_of(4096));
const _: () = assert!(RING_HEADS_AT.is_multiple_of(4096));
const _: () = assert!(SLOTS_AT.is_multiple_of(4096));
