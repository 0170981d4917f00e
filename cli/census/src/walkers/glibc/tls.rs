//! What threads tell: the words of their static thread-local variables, and whether one may be in the
//! middle of a call.

use std::ops::Range;

use crate::{Image, Moment, Thread};

/// Static thread-local variables of all modules together, at most.
const REACH: u64 = 64 << 10;

/// System calls that malloc makes: mmap, mprotect, munmap, brk, mremap, madvise; and futex, where another
/// thread has locked an arena.
const CALLS: [u64; 6] = [9, 10, 11, 12, 25, 28];
const FUTEX: u64 = 202;

/// The words below a thread's pointer, with the nearest last.
pub fn words(moment: &Moment<'_>, pointer: u64) -> Vec<u64> {
    let last = pointer.checked_sub(8).and_then(|last| moment.region(last));
    let Some(region) = last.filter(|region| region.readable && region.writable) else {
        return Vec::new();
    };
    let range: Range<u64> = region.range.start.max(pointer.saturating_sub(REACH))..pointer & !7;
    let count = usize::try_from((range.end.saturating_sub(range.start)) / 8).unwrap_or(0);
    moment.words(range.end - (count as u64) * 8, count).unwrap_or_default()
}

/// How many threads may be in the middle of a call: those that stand in code of the allocator's module, and
/// in no system call that it does not make. At least as many as arenas are locked.
pub fn in_flight(moment: &Moment<'_>, image: &Image, locked: u64) -> u64 {
    let may_be = |thread: &&Thread| {
        may_be_in_a_call(thread, image)
            || locked > 0 && thread.call == Some(FUTEX) && image.range.contains(&thread.code)
    };
    (moment.threads().iter().filter(may_be).count() as u64).max(locked)
}

/// Whether a thread may be in the middle of a call, and waits for no other.
pub fn may_be_in_a_call(thread: &Thread, image: &Image) -> bool {
    image.range.contains(&thread.code) && thread.call.is_none_or(|call| CALLS.contains(&call))
}
