//! Which blocks are samples: a counting filter that nearly every `free` stops at, and the exact
//! table behind it, from the address of a block to the stamp of its record.

/// Counters of the filter, a byte each. One that is full stays so.
pub const FILTER_BYTES: usize = 1 << 18;
/// A counter is for so many neighbouring bytes, as a power of two: samples are far apart, so that a
/// block has hardly ever one beside it, and the counters of all blocks a program is busy with are
/// few enough to stay near the processor.
pub const GRANULE_SHIFT: u32 = 9;
/// Binary logarithm of [`BUCKETS`].
pub const BUCKET_BITS: u32 = 14;
/// Buckets of the table.
pub const BUCKETS: usize = 1 << BUCKET_BITS;
/// Samples in one bucket. An address has two buckets.
pub const WAYS: usize = 8;
/// Size of an entry: address and stamp.
pub const ENTRY_BYTES: usize = 16;
/// Size of the table.
pub const TABLE_BYTES: usize = BUCKETS * WAYS * ENTRY_BYTES;
/// The address in an entry that a thread is just filling in.
pub const CLAIMED: u64 = 1;
/// 2^64 divided by the golden ratio.
pub const HASH_MUL: u64 = 0x9e37_79b9_7f4a_7c15;

/// The counter of the filter for a block.
pub const fn filter_index(address: u64) -> usize {
    (address >> GRANULE_SHIFT) as usize & (FILTER_BYTES - 1)
}

/// The two buckets for a block.
pub const fn buckets(address: u64) -> [usize; 2] {
    let hash = address.wrapping_mul(HASH_MUL);
    let first = (hash >> (64 - BUCKET_BITS)) as usize;
    let second = (hash >> (64 - 2 * BUCKET_BITS)) as usize & (BUCKETS - 1);
    [first, second]
}
