//! All chunks, by segment: their addresses, and their states in the bits that an address has to spare.

use std::ops::Range;

use super::link_sums::LinkSums;

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The program has it.
    Used,
    /// It is in a list of bins.
    Free,
    /// It is in a fast bin.
    Fast,
    /// It is in the cache of a thread.
    Cached,
    /// It is the cache of a thread itself.
    Cache,
}

/// The bits of a mark in an address.
const BITS: u64 = 15;

impl Mark {
    const ALL: [Self; 5] = [Self::Used, Self::Free, Self::Fast, Self::Cached, Self::Cache];

    fn of(entry: u64) -> Self {
        let number = usize::try_from(entry & BITS).unwrap_or(0);
        Self::ALL.get(number).copied().unwrap_or(Self::Used)
    }
}

/// A range that an arena allocates from, cut into chunks without a gap.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// From its first chunk to where its chain ends: its top, or fences.
    pub range: Range<u64>,
    /// All that it has of memory: with what is before its first chunk, fences, and the top.
    pub whole: Range<u64>,
    /// The arena.
    pub arena: u32,
    /// What links of its free chunks come to.
    pub links: LinkSums,
    /// The last chunk and its links, if it is free.
    pub last: Option<(u64, u64, u64)>,
    /// The chunks, ascending, each with its mark.
    entries: Vec<u64>,
}

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where its head is.
    pub at: u64,
    /// Its size, without flags.
    pub size: u64,
    /// What it is.
    pub mark: Mark,
}

/// A chunk with a mapping of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedChunk {
    /// Where its head is.
    pub at: u64,
    /// The bytes that can be used.
    pub usable: u64,
    /// The mapping.
    pub base: u64,
    /// Its bytes.
    pub total: u64,
    /// What it is: late releases keep some in caches of threads.
    pub mark: Mark,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    /// Ascending once sorted.
    pub segments: Vec<Segment>,
    /// Ascending.
    pub mapped: Vec<MappedChunk>,
}

/// The place of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a segment.
    Segment {
        /// Its number.
        segment: usize,
        /// The chunk's.
        entry: usize,
    },
    /// In a mapping of its own.
    Mapped(usize),
}

impl Segment {
    /// Of an arena, beginning at `start`.
    pub fn new(arena: u32, start: u64) -> Self {
        Self { range: start..start, whole: start..start, arena, ..Self::default() }
    }

    /// Adds the next chunk, which ends at `end`.
    #[inline]
    pub fn push(&mut self, at: u64, end: u64, is_used: bool) {
        self.entries.push(at | u64::from(!is_used));
        self.range.end = end;
    }

    /// Takes the last chunk back: it was none.
    pub fn pop(&mut self) {
        if let Some(entry) = self.entries.pop() {
            self.range.end = entry & !BITS;
        }
        if let Some((place, next, before)) = self.last.take() {
            self.links.take_back(place, next, before);
        }
    }

    /// Where the last chunk begins.
    pub fn last_start(&self) -> Option<u64> {
        self.entries.last().map(|entry| entry & !BITS)
    }

    /// Adds the chunks of one that begins where this one ends.
    pub fn append(&mut self, behind: Self) {
        if !behind.entries.is_empty() {
            self.last = behind.last;
        }
        self.links.merge(&behind.links);
        self.entries.extend(behind.entries);
        self.range.end = behind.range.end;
    }

    fn chunk(&self, entry: usize) -> Option<Chunk> {
        let own = *self.entries.get(entry)?;
        let end = self.entries.get(entry + 1).map_or(self.range.end, |next| next & !BITS);
        let at = own & !BITS;
        Some(Chunk { at, size: end - at, mark: Mark::of(own) })
    }

    /// All of them, ascending.
    pub fn all(&self) -> impl Iterator<Item = Chunk> {
        (0..self.entries.len()).filter_map(|entry| self.chunk(entry))
    }
}

impl Chunks {
    /// Sorts the segments; those that overlap an earlier one are left out: how many.
    pub fn sort(&mut self) -> usize {
        self.segments.sort_by_key(|segment| (segment.range.start, segment.range.end));
        let before = self.segments.len();
        let mut end = 0;
        self.segments.retain(|segment| {
            let is_apart = segment.range.start >= end;
            end = end.max(segment.range.end);
            is_apart
        });
        before - self.segments.len()
    }

    /// The chunk whose head is there.
    pub fn find(&self, at: u64) -> Option<(Place, Chunk)> {
        let segment = self.segments.partition_point(|segment| segment.range.end <= at);
        let Some(own) = self.segments.get(segment).filter(|own| own.range.contains(&at)) else {
            return self.find_mapped(at);
        };
        let entry = own.entries.partition_point(|entry| entry & !BITS < at);
        let chunk = own.chunk(entry).filter(|chunk| chunk.at == at)?;
        Some((Place::Segment { segment, entry }, chunk))
    }

    fn find_mapped(&self, at: u64) -> Option<(Place, Chunk)> {
        let index = self.mapped.binary_search_by_key(&at, |mapped| mapped.at).ok()?;
        let MappedChunk { usable, mark, .. } = self.mapped[index];
        Some((Place::Mapped(index), Chunk { at, size: usable, mark }))
    }

    /// Changes what a chunk is.
    pub fn mark(&mut self, place: Place, mark: Mark) {
        let (segments, mapped) = (&mut self.segments, &mut self.mapped);
        match place {
            Place::Segment { segment, entry } => {
                let own = segments.get_mut(segment).and_then(|own| own.entries.get_mut(entry));
                if let Some(entry) = own {
                    *entry = (*entry & !BITS) | mark as u64;
                }
            }
            Place::Mapped(index) => {
                if let Some(chunk) = mapped.get_mut(index) {
                    chunk.mark = mark;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_found_by_its_head_and_ends_where_the_next_begins() {
        let mut segment = Segment::new(3, 0x1000);
        segment.push(0x1000, 0x1020, true);
        segment.push(0x1020, 0x1080, false);
        let mut chunks = Chunks { segments: vec![segment], mapped: Vec::new() };
        assert_eq!(chunks.sort(), 0);
        let (place, chunk) = chunks.find(0x1020).unwrap();
        assert_eq!(chunk, Chunk { at: 0x1020, size: 0x60, mark: Mark::Free });
        assert!(chunks.find(0x1010).is_none() && chunks.find(0x1080).is_none());
        for mark in Mark::ALL {
            chunks.mark(place, mark);
            assert_eq!(chunks.find(0x1020).unwrap().1.mark, mark);
        }
        assert_eq!(chunks.find(0x1000).unwrap().1.size, 0x20);
    }

    #[test]
    fn what_overlaps_is_left_out() {
        let segment = |start: u64, end: u64| {
            let mut segment = Segment::new(0, start);
            segment.push(start, end, true);
            segment
        };
        let segments = vec![segment(0x3000, 0x4000), segment(0x1000, 0x3800)];
        let mut chunks = Chunks { segments, mapped: Vec::new() };
        assert_eq!((chunks.sort(), chunks.segments.len()), (1, 1));
    }
}
