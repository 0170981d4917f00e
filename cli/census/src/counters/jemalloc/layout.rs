//! Where counters of an arena lie, by release. The table is made from jemalloc's sources:
//!
//! ```text
//! cd SOURCES_OF_JEMALLOC && ./configure && make include/jemalloc/jemalloc.h
//! cc -std=gnu11 -O1 -w -Iinclude -D_GNU_SOURCE -DJEMALLOC_NO_PRIVATE_NAMESPACE \
//!     fixtures/heaps/layout_jemalloc_counters.c -o layout -lm -lpthread && ./layout
//! ```
//!
//! It prints one [`Layout`], with offsets within an arena unless another thing is named. Options of a build do
//! not move these fields, but for the step of size classes, which moves the counts of a base.

/// The offsets.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The release it was made from.
    pub release: &'static str,
    /// The bytes of an arena.
    pub arena: u64,
    /// The pointer to its base, which begins with the number of the arena.
    pub base: u64,
    /// In a base: the lock.
    pub base_lock: u64,
    /// In a base: its newest block.
    pub base_blocks: u64,
    /// In a base, with a step of 16 bytes: bytes allocated, resident, mapped, and huge pages.
    pub base_counts: [u64; 4],
    /// The first bin; before 5.3, the first pointer to the bins of a class.
    pub bins: u64,
    /// A bin.
    pub bin: Bin,
    /// Active pages.
    pub active: u64,
    /// Dirty, muzzy and retained extents.
    pub extents: [Extents; 3],
    /// Dirty and muzzy decay.
    pub decay: [Decay; 2],
    /// Bytes that the allocator has for itself in blocks.
    pub internal: u64,
    /// Bytes mapped for extents.
    pub mapped: u64,
    /// Bytes whose mapping could not be given back.
    pub abandoned: u64,
    /// The first large class.
    pub large: u64,
    /// A large class.
    pub large_row: Large,
    /// The lock of large blocks.
    pub large_lock: u64,
    /// The lock of extents without pages.
    pub avail_lock: u64,
    /// The ring of descriptors of thread caches.
    pub caches: u64,
    /// The lock of that ring.
    pub caches_lock: u64,
    /// The bytes of a bin of a thread cache.
    pub cache_row: u64,
    /// In a descriptor: the pointer to the bins; before 5.3 that to small ones, then that to large ones.
    pub descriptor_bins: u64,
    /// Bins of a thread cache, with a step of 16 bytes; before 5.3 they are counted.
    pub cache_bins: Option<u64>,
    /// Whether it ever had huge pages that it divides itself.
    pub hpa: Option<u64>,
    /// When it was made.
    pub created: u64,
    /// In a lock: how often its owner changed.
    pub lock_switches: u64,
    /// In a lock: how often it was taken.
    pub lock_operations: u64,
}

/// A bin.
#[derive(Debug, PartialEq, Eq)]
pub struct Bin {
    /// Its bytes.
    pub bytes: u64,
    /// Its statistics.
    pub statistics: u64,
}

/// Extents of one kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Extents {
    /// The lock.
    pub lock: u64,
    /// Pages of ordinary and of guarded ones; 0 where there are none of these.
    pub pages: [u64; 2],
}

/// How pages decay.
#[derive(Debug, PartialEq, Eq)]
pub struct Decay {
    /// The lock.
    pub lock: u64,
    /// The time that was set.
    pub time: u64,
    /// Purges, calls of the kernel, pages.
    pub counts: u64,
}

/// A large class: blocks allocated and freed come first.
#[derive(Debug, PartialEq, Eq)]
pub struct Large {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes in use, where they are counted.
    pub live: Option<u64>,
    /// Requests that caches served.
    pub requests: u64,
    /// Flushes of caches.
    pub flushes: u64,
}

/// The releases.
pub static ALL: [Layout; 3] = [
    Layout {
        release: "5.2.1",
        arena: 29496,
        base: 29480,
        base_lock: 16,
        base_blocks: 144,
        base_counts: [2008, 2016, 2024, 2032],
        bins: 29192,
        bin: Bin { bytes: 280, statistics: 136 },
        active: 10344,
        extents: [
            Extents { lock: 10472, pages: [15424, 0] },
            Extents { lock: 15440, pages: [20392, 0] },
            Extents { lock: 20408, pages: [25360, 0] },
        ],
        decay: [
            Decay { lock: 25376, time: 25496, counts: 48 },
            Decay { lock: 27160, time: 27280, counts: 72 },
        ],
        internal: 104,
        mapped: 24,
        abandoned: 176,
        large: 768,
        large_row: Large { bytes: 48, live: None, requests: 16, flushes: 32 },
        large_lock: 10360,
        avail_lock: 29080,
        caches: 10192,
        caches_lock: 10200,
        cache_row: 24,
        descriptor_bins: 16,
        cache_bins: None,
        hpa: None,
        created: 29488,
        lock_switches: 40,
        lock_operations: 56,
    },
    Layout {
        release: "5.3.0",
        arena: 78952,
        base: 78936,
        base_lock: 32,
        base_blocks: 160,
        base_counts: [3880, 3888, 3896, 3904],
        bins: 78952,
        bin: Bin { bytes: 224, statistics: 112 },
        active: 10656,
        extents: [
            Extents { lock: 10728, pages: [20480, 30136] },
            Extents { lock: 30168, pages: [39920, 49576] },
            Extents { lock: 49608, pages: [59360, 69016] },
        ],
        decay: [
            Decay { lock: 69320, time: 69440, counts: 120 },
            Decay { lock: 71104, time: 71224, counts: 144 },
        ],
        internal: 56,
        mapped: 176,
        abandoned: 184,
        large: 976,
        large_row: Large { bytes: 48, live: None, requests: 16, flushes: 32 },
        large_lock: 10536,
        avail_lock: 78768,
        caches: 10400,
        caches_lock: 10408,
        cache_row: 24,
        descriptor_bins: 16,
        cache_bins: Some(73),
        hpa: Some(10665),
        created: 78944,
        lock_switches: 40,
        lock_operations: 56,
    },
    Layout {
        release: "5.3.1",
        arena: 80704,
        base: 80648,
        base_lock: 32,
        base_blocks: 160,
        base_counts: [3896, 3920, 3928, 3936],
        bins: 80704,
        bin: Bin { bytes: 224, statistics: 112 },
        active: 12296,
        extents: [
            Extents { lock: 12352, pages: [22104, 31760] },
            Extents { lock: 31792, pages: [41544, 51200] },
            Extents { lock: 51232, pages: [60984, 70640] },
        ],
        decay: [
            Decay { lock: 70944, time: 71064, counts: 136 },
            Decay { lock: 72728, time: 72848, counts: 160 },
        ],
        internal: 72,
        mapped: 192,
        abandoned: 200,
        large: 992,
        large_row: Large { bytes: 56, live: Some(16), requests: 24, flushes: 40 },
        large_lock: 12120,
        avail_lock: 80472,
        caches: 11984,
        caches_lock: 11992,
        cache_row: 24,
        descriptor_bins: 16,
        cache_bins: Some(41),
        hpa: Some(12305),
        created: 80656,
        lock_switches: 40,
        lock_operations: 56,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_within_an_arena_and_in_the_order_of_the_sources() {
        for layout in &ALL {
            let Layout { arena, extents: [dirty, muzzy, retained], decay, .. } = layout;
            let order = [
                layout.internal,
                layout.large,
                layout.caches,
                layout.active,
                dirty.lock,
                dirty.pages[0],
                muzzy.lock,
                retained.pages[0],
                decay[0].time,
                decay[1].time,
                *arena,
            ];
            assert!(order.is_sorted(), "{}", layout.release);
            let behind = layout.large + 196 * layout.large_row.bytes;
            assert!(behind <= layout.caches && layout.base < *arena, "{}", layout.release);
        }
    }
}
