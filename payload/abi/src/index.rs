//! Which row belongs to which thread: a hash table keyed by the thread pointer, private to the
//! process and zero in every forked child, so that a child finds no row and counts nothing.

use core::mem::offset_of;

use crate::control::CONTROL_BYTES;

/// One thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its thread pointer; 0 while free, [`CLAIMED`] while `row` is being found.
    pub key: u64,
    /// Address of its row.
    pub row: u64,
}

/// The key of an entry that a thread is just filling in. No thread pointer is odd.
pub const CLAIMED: u64 = 1;
/// Binary logarithm of [`BUCKETS`].
pub const BUCKET_BITS: u32 = 12;
/// Hash buckets.
pub const BUCKETS: usize = 1 << BUCKET_BITS;
/// Entries looked at for one thread; the last buckets go on into extra ones instead of wrapping.
pub const PROBES: usize = 8;
/// Size of an [`Entry`].
pub const ENTRY_BYTES: usize = size_of::<Entry>();
/// Size of the whole index.
pub const INDEX_BYTES: usize = (BUCKETS + PROBES) * ENTRY_BYTES;
/// Size of all private memory, in whole pages.
pub const PRIVATE_BYTES: usize = (CONTROL_BYTES + INDEX_BYTES).next_multiple_of(4096);
/// Thread pointers lie a stack's size apart. Of random odd numbers that fit into an instruction, and
/// bits of the product, such as give 1600 threads an entry each for every usual stack size.
pub const HASH_MUL: u64 = 0x5ef2_e04d;
/// Where in the product the bucket is.
pub const HASH_SHIFT: u32 = 34;

/// The first entry to look at for a thread.
pub const fn bucket(thread_pointer: u64) -> usize {
    (thread_pointer.wrapping_mul(HASH_MUL) >> HASH_SHIFT) as usize & (BUCKETS - 1)
}

const _: () = assert!(ENTRY_BYTES == 16);
const _: () = assert!(offset_of!(Entry, key) == 0);
const _: () = assert!(offset_of!(Entry, row) == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_stays_inside_the_index() {
        for tp in (0..u64::MAX - (1 << 50)).step_by(1 << 50).chain([u64::MAX]) {
            assert!(bucket(tp) < BUCKETS);
        }
    }

    #[test]
    fn sixteen_hundred_threads_of_equal_stacks_get_entries_of_their_own() {
        for spacing in [
            0x80_1000_u64,
            0x40_1000,
            0x20_1000,
            0x10_1000,
            0x8_1000,
            0x4_1000,
            0x2_3000,
            0x2_1000,
            0x1_1000,
            0x9000,
            0x5000,
            0x4000,
            0x80_0000,
            0x20_0000,
            0x10_0000,
        ] {
            let mut taken = [false; BUCKETS + PROBES];
            let shared = (0..1600).filter(|i| {
                let first = bucket(0x7f00_0000_0740 + i * spacing);
                let free = (first..first + PROBES).find(|&entry| !taken[entry]);
                free.map(|entry| taken[entry] = true).is_none()
            });
            assert_eq!(shared.count(), 0, "spacing {spacing:#x}");
        }
    }
}
