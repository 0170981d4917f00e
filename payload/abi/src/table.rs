//! The counters: rows in memory shared by the target (which adds) and the reader (which reads).
//!
//! A thread owns the row that bears its thread pointer and adds to it with plain single
//! instructions, which a signal handler of the same thread cannot tear. Row 0 is everybody's and
//! is added to with locked instructions. Nothing is ever taken away: a row outlives its thread,
//! and a later thread with the same thread pointer goes on with it.
//!
//! A byte of this memory may be written by the target at any time, by accident too: a reader
//! copies first and believes nothing.

use core::mem::offset_of;

use crate::kind::MAX_HOOKS;

/// Calls and the bytes they asked for.
///
/// A request of more than `i64::MAX` bytes, which no allocator can grant, counts as a call of
/// 0 bytes: one `malloc(-1)` would otherwise turn the sum of a whole session into nonsense.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of calls.
    pub calls: u64,
    /// Sum of the bytes asked for, modulo 2^64.
    pub bytes: u64,
}

/// The calls of one hook from one place.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Site {
    /// [`site_key`], or 0 where nothing was counted yet.
    pub key: u64,
    /// What was counted.
    pub count: Count,
}

/// The counters of one thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Thread pointer of the owner; 0 while free and in row 0.
    pub key: u64,
    /// Calls until the next look at the heartbeat.
    pub ticks: u32,
    /// Zero.
    pub reserved: [u32; 13],
    /// Per hook: the calls whose call site found no room in `sites`.
    pub overflow: [Count; MAX_HOOKS],
    /// Hash table of the call sites.
    pub sites: [Site; SITES + SITE_PROBES],
    /// Zero.
    pub reserved_end: [u64; 72],
}

/// Size of a row.
pub const ROW_BYTES: usize = 8192;
/// Binary logarithm of [`ROWS`].
pub const ROW_BITS: u32 = 11;
/// Hash buckets for rows of threads.
pub const ROWS: usize = 1 << ROW_BITS;
/// Rows looked at for one thread; the last buckets go on into extra rows instead of wrapping.
pub const ROW_PROBES: usize = 8;
/// All rows: the shared one, the buckets, the extra ones.
pub const ALL_ROWS: usize = 1 + ROWS + ROW_PROBES;
/// Size of the whole table.
pub const TABLE_BYTES: usize = ALL_ROWS * ROW_BYTES;
/// Binary logarithm of [`SITES`].
pub const SITE_BITS: u32 = 8;
/// Hash buckets for call sites in a row.
pub const SITES: usize = 1 << SITE_BITS;
/// Sites looked at for one call; the last buckets go on into extra ones instead of wrapping.
pub const SITE_PROBES: usize = 16;
/// A thread looks at the heartbeat once in so many calls.
pub const TICKS: u32 = 4096;
/// Thread pointers lie a stack's size apart. Of random odd numbers, one that gives 1600 threads a
/// row each for every usual stack size; 2^64 divided by the golden ratio fails for 1 MiB stacks.
pub const ROW_HASH_MUL: u64 = 0x9b2b_d6c0_816b_ee07;
/// 2^32 divided by the golden ratio. The low half of a return address is enough: no two modules
/// that call often differ in the high half only.
pub const SITE_HASH_MUL: u32 = 0x9e37_79b1;

/// Offset of [`Row::key`].
pub const ROW_KEY: usize = offset_of!(Row, key);
/// Offset of [`Row::ticks`].
pub const ROW_TICKS: usize = offset_of!(Row, ticks);
/// Offset of [`Row::overflow`].
pub const ROW_OVERFLOW: usize = offset_of!(Row, overflow);
/// Offset of [`Row::sites`].
pub const ROW_SITES: usize = offset_of!(Row, sites);
/// Size of a [`Site`].
pub const SITE_BYTES: usize = size_of::<Site>();
/// Size of a [`Count`].
pub const COUNT_BYTES: usize = size_of::<Count>();
/// Offset of the calls in a [`Site`].
pub const SITE_CALLS: usize = offset_of!(Site, count) + offset_of!(Count, calls);
/// Offset of the bytes in a [`Site`].
pub const SITE_REQUESTED: usize = offset_of!(Site, count) + offset_of!(Count, bytes);

const HOOK_SHIFT: u32 = 56;

/// The key of the calls of `hook` that return to `return_address`.
///
/// No address of a user's program reaches bit 56, with five-level page tables neither.
pub const fn site_key(return_address: u64, hook: usize) -> u64 {
    return_address ^ ((hook as u64) << HOOK_SHIFT)
}

/// Hook and return address of a key; the hook of a foreign key may exceed [`MAX_HOOKS`].
pub const fn split_key(key: u64) -> (usize, u64) {
    ((key >> HOOK_SHIFT) as usize, key & ((1 << HOOK_SHIFT) - 1))
}

/// The first row to look at for a thread: at least 1, for row 0 is everybody's.
pub const fn row_index(thread_pointer: u64) -> usize {
    1 + (thread_pointer.wrapping_mul(ROW_HASH_MUL) >> (64 - ROW_BITS)) as usize
}

/// The first site to look at for a key.
pub const fn site_index(key: u64) -> usize {
    let low = (key & 0xffff_ffff) as u32;
    (low.wrapping_mul(SITE_HASH_MUL) >> (32 - SITE_BITS)) as usize
}

const _: () = assert!(size_of::<Row>() == ROW_BYTES);
const _: () = assert!(ROW_KEY == 0);
const _: () = assert!(ROW_TICKS == 8);
const _: () = assert!(ROW_OVERFLOW == 64);
const _: () = assert!(ROW_SITES == 1088);
const _: () = assert!(SITE_BYTES == 24);
const _: () = assert!(SITE_CALLS == 8);
const _: () = assert!(SITE_REQUESTED == 16);
// The payload counts into an overflow cell as if it were a site that begins 8 bytes earlier.
const _: () = assert!(COUNT_BYTES == 16 && SITE_REQUESTED - SITE_CALLS == offset_of!(Count, bytes));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_what_it_was_made_of() {
        assert_eq!(split_key(site_key(0x7fff_1234_5678, 63)), (63, 0x7fff_1234_5678));
        assert_eq!(split_key(site_key(0x00ff_ffff_ffff_ffff, 0)), (0, 0x00ff_ffff_ffff_ffff));
    }

    #[test]
    fn every_probe_stays_inside_the_table() {
        for tp in (0..u64::MAX - (1 << 50)).step_by(1 << 50).chain([u64::MAX]) {
            assert!((1..=ROWS).contains(&row_index(tp)));
            assert!(site_index(tp) < SITES);
        }
    }

    #[test]
    fn a_thousand_threads_of_equal_stacks_get_rows_of_their_own() {
        for spacing in [0x80_1000_u64, 0x40_1000, 0x20_1000, 0x10_1000, 0x2_3000, 0x5000, 0x4000] {
            let mut taken = [false; ALL_ROWS];
            let shared = (0..1000).filter(|i| {
                let first = row_index(0x7f00_0000_0740 + i * spacing);
                let free = (first..first + ROW_PROBES).find(|&row| !taken[row]);
                free.map(|row| taken[row] = true).is_none()
            });
            assert_eq!(shared.count(), 0, "spacing {spacing:#x}");
        }
    }
}
