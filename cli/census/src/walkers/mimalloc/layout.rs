//! Where mimalloc's fields lie, by release. The tables are made from its sources:
//!
//! ```text
//! cd SOURCES_OF_MIMALLOC
//! cc -w -O1 -DNDEBUG -Iinclude -Isrc fixtures/heaps/layout_mimalloc.c -o layout && ./layout
//! ```
//!
//! with `-DSTART` for 2.1.4 to 2.4, and `-DWORDS` from 3.4 on. Which row fits is told by the heap itself: with
//! another one its pages would not add up. Secure and debug builds have other fields, and fit no row.

/// Where the first block of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Small blocks begin 384 bytes behind the start of the slice.
    Fixed,
    /// Small blocks begin one or three of them behind the start of the slice.
    Multiple,
    /// The page says where.
    At(u64),
    /// The page says how many words behind its books.
    Words(u64),
}

/// What is the same of pages in both kinds of releases: offsets in the books of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Fields {
    /// The list of free blocks.
    pub free: u64,
    /// Of those that its thread freed since.
    pub local_free: u64,
    /// Of those that other threads freed since.
    pub thread_free: u64,
    /// Blocks in use, and the bytes of that number.
    pub used: (u64, u64),
    /// Blocks that there are. The number that there can be follows it.
    pub capacity: u64,
    /// The bytes of a block, and the bytes of that number.
    pub block: (u64, u64),
    /// Where its blocks begin.
    pub start: Start,
    /// The heap that has it.
    pub heap: u64,
    /// In a heap: how many pages it has.
    pub heap_pages: u64,
}

/// A release that has segments: 2.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The releases that it fits.
    pub releases: &'static str,
    /// In a segment: its address, mixed with a secret of the process.
    pub cookie: u64,
    /// In a segment: pages in use.
    pub used_pages: u64,
    /// In a segment: its slices.
    pub segment_slices: u64,
    /// In a segment: the slices that its books take.
    pub info_slices: u64,
    /// In a segment: the slices that have books.
    pub entries: u64,
    /// In a segment: the thread that has it.
    pub thread: u64,
    /// In a segment: the books of its slices.
    pub slices: u64,
    /// The bytes of a slice's books.
    pub slice: u64,
    /// In those that begin a page.
    pub page: Fields,
    /// In a heap: blocks that other threads freed while their page was full.
    pub heap_delayed: u64,
}

/// A release that has a map of pages: 3.
#[derive(Debug, PartialEq, Eq)]
pub struct MapLayout {
    /// The releases that it fits.
    pub releases: &'static str,
    /// In a page: the thread that has it, and flags.
    pub thread: u64,
    /// The rest of it.
    pub page: Fields,
}

const SEGMENTS_2_0: Layout = Layout {
    releases: "2.0.9",
    cookie: 216,
    used_pages: 208,
    segment_slices: 224,
    info_slices: 232,
    entries: 248,
    thread: 256,
    slices: 264,
    slice: 80,
    page: Fields {
        free: 16,
        local_free: 32,
        thread_free: 40,
        used: (24, 4),
        capacity: 10,
        block: (28, 4),
        start: Start::Fixed,
        heap: 48,
        heap_pages: 3024,
    },
    heap_delayed: 2840,
};

const PAGES_2_1: Fields = Fields {
    free: 16,
    local_free: 24,
    thread_free: 56,
    used: (32, 2),
    capacity: 10,
    block: (40, 8),
    start: Start::At(48),
    heap: 64,
    heap_pages: 192,
};

/// Releases with segments.
pub static SEGMENTS: [Layout; 4] = [
    SEGMENTS_2_0,
    Layout {
        releases: "2.1.0 to 2.1.2",
        page: Fields { start: Start::Multiple, ..SEGMENTS_2_0.page },
        ..SEGMENTS_2_0
    },
    Layout {
        releases: "2.1.4 to 2.1.8",
        slice: 96,
        page: PAGES_2_1,
        heap_delayed: 8,
        ..SEGMENTS_2_0
    },
    Layout {
        releases: "2.1.9 to 2.4",
        cookie: 224,
        used_pages: 216,
        segment_slices: 248,
        info_slices: 256,
        entries: 272,
        thread: 280,
        slices: 288,
        slice: 96,
        page: PAGES_2_1,
        heap_delayed: 8,
    },
];

const PAGES_3_3: Fields = Fields {
    free: 8,
    local_free: 24,
    thread_free: 32,
    used: (16, 2),
    capacity: 18,
    block: (40, 8),
    start: Start::At(48),
    heap: 56,
    heap_pages: 176,
};

/// Releases with a map.
pub static MAPS: [MapLayout; 2] = [
    MapLayout { releases: "3.3", thread: 0, page: PAGES_3_3 },
    MapLayout {
        releases: "3.4",
        thread: 0,
        page: Fields { start: Start::Words(48), heap_pages: 184, ..PAGES_3_3 },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_page_lie_within_its_books() {
        for layout in &SEGMENTS {
            let Fields { heap, thread_free, capacity, .. } = layout.page;
            assert!(heap < layout.slice && thread_free < heap && capacity < layout.page.free);
            assert!(layout.thread < layout.slices, "{}", layout.releases);
        }
    }
}
