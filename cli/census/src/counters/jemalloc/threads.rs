//! What threads count themselves: `thread.allocated` and `thread.deallocated`, of those that have a cache.
//!
//! ```text
//! descriptor in the ring of an arena -> bins of the cache <- counts lie right before them (5.3)
//!                                             \-> above, the thread control block, with the number of the thread
//! ```
//!
//! Since 5.3 a thread's data is one structure, in which its cache follows its counts, and its cache's other half, which has
//! the descriptor, comes before both. A cache that a program made itself (`tcache.create`) has it behind its bins, and no
//! counts. The structure lies in the thread's static TLS, below its control block. Whatever of this does not hold is not
//! told.

use heapattach_process::little_endian::u32_at;

use crate::{Moment, counters::statistics::ThreadCount};

/// How far before the bins counts begin: allocated, its next event, freed, its next event, the pointer to the other half.
const BEFORE: u64 = 40;
/// The descriptor lies so far into that half.
const DESCRIPTOR: u64 = 16;
/// Both halves are parts of one structure of some KiB.
const NEAR: u64 = 16 << 10;
/// How far above the control block can be, by pages.
const ABOVE: u64 = 64 << 10;
const STEP: u64 = 4096;
/// In glibc's control block: itself again, and the number of the thread.
const SELF: usize = 2;
const TID: u64 = 720;
/// `PID_MAX_LIMIT`.
const MOST_TID: u32 = 1 << 22;

/// The counts of the thread whose cache has its descriptor and its bins there; `None` if it is a cache of a program's own, or
/// the thread cannot be told.
pub fn count(moment: &Moment<'_>, descriptor: u64, bins: u64) -> Option<ThreadCount> {
    let words = moment.words(bins.checked_sub(BEFORE)?, 5)?;
    let half = descriptor.checked_sub(DESCRIPTOR)?;
    let is_own = words[4] == half && bins > descriptor && bins - descriptor < NEAR;
    let tid = is_own.then(|| thread(moment, bins))??;
    Some(ThreadCount { tid, allocated: words[0], deallocated: words[2] })
}

/// Whether a cache belongs to a thread, as far as its own words tell.
pub fn is_of_a_thread(moment: &Moment<'_>, descriptor: u64, bins: u64) -> bool {
    let half = bins.checked_sub(8).and_then(|at| moment.word(at));
    half == descriptor.checked_sub(DESCRIPTOR) && bins > descriptor && bins - descriptor < NEAR
}

/// The number of the thread in whose static TLS that lies.
fn thread(moment: &Moment<'_>, from: u64) -> Option<i32> {
    let end = moment.region(from)?.range.end.min(from.saturating_add(ABOVE));
    let mut at = from & !7;
    while at < end {
        // The pair may lie on both sides of a step.
        let words = (STEP / 8 + SELF as u64).min((end - at) / 8);
        let words = moment.words(at, usize::try_from(words).ok()?)?;
        let own = (at..).step_by(8).zip(&words);
        let found = own
            .zip(words.iter().skip(SELF))
            .find(|((at, first), again)| *first == at && *again == at);
        if let Some(((block, _), _)) = found {
            let tid = u32_at(&moment.bytes(block + TID, 4)?, 0)?;
            return i32::try_from(tid).ok().filter(|_| (1..=MOST_TID).contains(&tid));
        }
        at += STEP;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::{RegionKind, synthetic::Synthetic};

    use super::*;

    const HALF: u64 = 0x10_0100;
    const BINS: u64 = 0x10_0800;
    const BLOCK: u64 = 0x10_2ff8;

    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.region(0x10_0000..0x11_0000, RegionKind::Anonymous, "");
        for (at, word) in [(40, 5000), (24, 300), (8, HALF)] {
            memory.write(BINS - at, word);
        }
        memory.write(BLOCK, BLOCK);
        memory.write(BLOCK + 16, BLOCK);
        memory.write(BLOCK + TID, 0xffff_ffff_0000_1267);
        memory
    }

    #[test]
    fn counts_lie_before_the_bins_and_the_number_in_the_control_block() {
        let memory = memory();
        let found = count(&memory.moment(), HALF + DESCRIPTOR, BINS);
        assert_eq!(found, Some(ThreadCount { tid: 0x1267, allocated: 5000, deallocated: 300 }));
    }

    #[test]
    fn a_cache_of_the_programs_own_and_one_without_a_thread_have_none() {
        let mut memory = memory();
        assert_eq!(count(&memory.moment(), BINS + 0x400, BINS), None, "behind its bins");
        assert_eq!(count(&memory.moment(), HALF, BINS), None, "another half");
        memory.write(BLOCK + 16, BLOCK + 8);
        assert_eq!(count(&memory.moment(), HALF + DESCRIPTOR, BINS), None, "no control block");
        assert!(is_of_a_thread(&memory.moment(), HALF + DESCRIPTOR, BINS));
    }
}
