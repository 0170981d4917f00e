//! Where the fields of an arena lie, by release. The table is made from jemalloc's sources:
//!
//! ```text
//! cd SOURCES_OF_JEMALLOC && ./configure && make include/jemalloc/jemalloc.h
//! cc -std=gnu11 -O1 -w -Iinclude -D_GNU_SOURCE -DJEMALLOC_NO_PRIVATE_NAMESPACE \
//!     fixtures/heaps/layout_jemalloc.c -o layout -lm -lpthread && ./layout
//! ```
//!
//! It prints one [`Layout`]. Options of a build do not move these fields, but for the step of size classes,
//! which moves those of a base. All else that a walk needs is found in memory.

use super::classes::Quantum;

/// Offsets within an arena (or what is named), in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The release it was made from.
    pub release: &'static str,
    /// The pointer to the map of all extents.
    pub emap: u64,
    /// The number of the arena.
    pub index: u64,
    /// The pointer to its base, that is, its allocator of books.
    pub base: u64,
    /// The first bin.
    pub bins: u64,
    /// Active pages.
    pub active: u64,
    /// The cache of dirty extents. Those of muzzy and retained ones follow.
    pub dirty: u64,
    /// The list of descriptors of thread caches.
    pub caches: u64,
    /// The lock of that list.
    pub caches_lock: u64,
    /// The lock of the list of large extents.
    pub large_lock: u64,
    /// Statistics of large classes, and the bytes of each.
    pub large: (u64, u64),
    /// The settings and state of dirty and of muzzy decay.
    pub decay: [u64; 2],
    /// Bytes that the allocator has for itself in blocks.
    pub internal: u64,
    /// Bytes mapped for extents.
    pub mapped: u64,
    /// In a lock: whether it is taken.
    pub locked: u64,
    /// In a base, with a step of 16 bytes: bytes allocated, resident, mapped.
    pub base_allocated: u64,
    /// See `base_allocated`.
    pub base_resident: u64,
    /// See `base_allocated`.
    pub base_mapped: u64,
    /// Bins of a thread cache, with a step of 16 bytes.
    pub cache_bins: u32,
}

/// Between the caches of dirty, muzzy and retained extents.
pub const EXTENT_CACHE: u64 = 19440;
/// In such a cache: pages of ordinary and of guarded extents.
pub const EXTENT_CACHE_PAGES: [u64; 2] = [112 + 9640, 9768 + 9640];
/// The bytes of a bin.
pub const BIN: u64 = 224;
/// In a bin: its statistics.
pub const BIN_STATS: u64 = 112;
/// In a bin: the lock.
pub const BIN_LOCK: u64 = 0;
/// Words of a bin of a thread cache: the newest block, requests, and ends of the stack.
pub const CACHE_BIN_WORDS: usize = 3;
/// In a base: its newest block, which begins with its size and the next one's address.
pub const BASE_BLOCKS: u64 = 160;
/// In the map of extents: the root of the tree.
pub const EMAP_ROOT: u64 = 120;
/// Statistics are kept of so many large classes.
pub const LARGE_CLASSES: u32 = 196;

/// The releases.
pub static ALL: [Layout; 2] = [
    Layout {
        release: "5.3.0",
        emap: 78912,
        index: 78928,
        base: 78936,
        bins: 78952,
        active: 10656,
        dirty: 10728,
        caches: 10400,
        caches_lock: 10408,
        large_lock: 10536,
        large: (976, 48),
        decay: [69320, 71104],
        internal: 56,
        mapped: 176,
        locked: 104,
        base_allocated: 3880,
        base_resident: 3888,
        base_mapped: 3896,
        cache_bins: 73,
    },
    Layout {
        release: "5.3.1",
        emap: 80616,
        index: 80640,
        base: 80648,
        bins: 80704,
        active: 12296,
        dirty: 12352,
        caches: 11984,
        caches_lock: 11992,
        large_lock: 12120,
        large: (992, 56),
        decay: [70944, 72728],
        internal: 72,
        mapped: 192,
        locked: 64,
        base_allocated: 3896,
        base_resident: 3920,
        base_mapped: 3928,
        cache_bins: 41,
    },
];

impl Layout {
    /// By how much fields of a base lie further behind: it has a word for each size class.
    pub fn base_shift(quantum: Quantum) -> u64 {
        match quantum {
            Quantum::Eight => 48,
            Quantum::Sixteen => 0,
        }
    }

    /// Bins of a thread cache.
    pub fn cache_bins(&self, quantum: Quantum) -> u32 {
        match quantum {
            Quantum::Eight => self.cache_bins + 3,
            Quantum::Sixteen => self.cache_bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_in_the_order_of_the_sources() {
        for layout in &ALL {
            let Layout {
                internal,
                mapped,
                large,
                caches,
                active,
                dirty,
                decay,
                emap,
                index,
                bins,
                ..
            } = *layout;
            let order = [
                internal, mapped, large.0, caches, active, dirty, decay[0], decay[1], emap, index,
                bins,
            ];
            assert!(order.is_sorted(), "{}", layout.release);
            let behind = large.0 + large.1 * u64::from(LARGE_CLASSES);
            assert!(behind <= caches && dirty + 3 * EXTENT_CACHE <= decay[0], "{}", layout.release);
        }
    }
}
