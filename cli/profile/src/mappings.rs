//! The pages that were mapped since the attach and are not unmapped yet, with the stack that mapped them.
//!
//! Byte for byte what the kernel does: lengths count in whole pages, an unmapping may take a part
//! of one mapping or many at once, a new mapping replaces what is in its place. Ranges with one
//! owner that touch are one, as in the kernel's own list, if they came at about the same time.

use std::collections::{BTreeMap, VecDeque};

use heapattach_process::addr::RemoteAddr;

use crate::{block::RowId, tick::Tick};

const PAGE: u64 = 4096;

/// No program has addresses beyond, on any processor of this kind.
const ADDRESSES: u64 = 1 << 56;

/// What came within this part of the time that had passed by then came at the same time.
const SAME_TIME: u32 = 16;

/// As many pieces of announced unmappings are remembered; the oldest is forgotten first.
const REMEMBERED: usize = 65_536;

/// A range of pages that changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first address.
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// The stack that mapped it; `None` where it is older than the session, or was never mapped.
    pub row: Option<RowId>,
    /// When it was mapped, where it has an owner.
    pub birth: Tick,
}

/// A range, by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    end: u64,
    row: RowId,
    birth: Tick,
}

/// What became of a new mapping.
#[derive(Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// Its bytes, in whole pages.
    pub bytes: u64,
    /// Whether it is in the list now.
    pub kept: bool,
    /// What it took the place of.
    pub replaced: &'a [Piece],
}

/// The live mappings.
#[derive(Debug)]
pub struct Mappings {
    ranges: BTreeMap<u64, Range>,
    limit: usize,
    /// The last unmappings, by their stamps, ascending.
    announced: VecDeque<(u64, Piece)>,
    pieces: Vec<Piece>,
    older: u64,
    beyond_limit: u64,
}

impl Piece {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Mappings {
    /// No mappings, and never more than `limit` ranges of them.
    pub fn new(limit: usize) -> Self {
        let (ranges, announced, pieces) = Default::default();
        Self { ranges, limit, announced, pieces, older: 0, beyond_limit: 0 }
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of announced unmappings that were not ours: older than the session, or never mapped.
    pub fn older_bytes_unmapped(&self) -> u64 {
        self.older
    }

    /// Bytes that found the list full; they are not live as far as it says.
    pub fn bytes_beyond_limit(&self) -> u64 {
        self.beyond_limit
    }

    /// All ranges, ascending, with the stack that mapped them and when it did.
    pub fn all(&self) -> impl Iterator<Item = (std::ops::Range<u64>, RowId, Tick)> {
        let all = self.ranges.iter();
        all.map(|(&start, &Range { end, row, birth })| (start..end, row, birth))
    }

    /// A range was mapped.
    pub fn mapped(&mut self, at: RemoteAddr, length: u64, row: RowId, birth: Tick) -> Placed<'_> {
        let (start, end) = pages(at, length);
        self.take(start, end);
        self.pieces.retain(|piece| piece.row.is_some());
        let kept = self.put(start, Range { end, row, birth });
        Placed { bytes: end - start, kept, replaced: &self.pieces }
    }

    /// The unmapping with this stamp is about to happen. Returns what is unmapped; pieces without
    /// an owner are counted already.
    pub fn unmapped(&mut self, stamp: u64, at: RemoteAddr, length: u64) -> &[Piece] {
        // What the kernel always refuses is nothing to be undone later: what other threads unmap
        // meanwhile would come back.
        if !at.get().is_multiple_of(PAGE) || at.get().saturating_add(length) > ADDRESSES {
            return &[];
        }
        let (start, end) = pages(at, length);
        self.take(start, end);
        for &piece in &self.pieces {
            if piece.row.is_none() {
                self.older = self.older.saturating_add(piece.bytes());
            }
            if self.announced.len() >= REMEMBERED {
                self.announced.pop_front();
            }
            self.announced.push_back((stamp, piece));
        }
        &self.pieces
    }

    /// The unmapping with the stamp `announced` did not happen. Returns what is back.
    pub fn restored(&mut self, announced: u64) -> &[Piece] {
        self.pieces.clear();
        let first = self.announced.partition_point(|&(stamp, _)| stamp < announced);
        let behind = self.announced.partition_point(|&(stamp, _)| stamp <= announced);
        let back: Vec<_> = self.announced.drain(first..behind.max(first)).collect();
        for (_, piece) in back {
            match piece.row {
                None => self.older = self.older.saturating_sub(piece.bytes()),
                Some(row) => {
                    self.fill(piece.start, Range { end: piece.end, row, birth: piece.birth });
                }
            }
        }
        &self.pieces
    }

    /// Cuts the range out of the list, into `pieces`, gaps included.
    fn take(&mut self, start: u64, end: u64) {
        self.pieces.clear();
        if start >= end {
            return;
        }
        let mut at = start;
        if let Some((_, range)) = self.ranges.range_mut(..start).next_back()
            && range.end > start
        {
            let whole = std::mem::replace(range, Range { end: start, ..*range });
            at = self.cut(start, end, whole);
        }
        while at < end
            && let Some((&from, &range)) = self.ranges.range(at..end).next()
        {
            self.ranges.remove(&from);
            self.gap(at, from);
            at = self.cut(from, end, range);
        }
        self.gap(at, end);
    }

    /// Notes a range that begins at `from` as taken up to `end`; what lies behind stays. Returns
    /// how far it was taken.
    fn cut(&mut self, from: u64, end: u64, range: Range) -> u64 {
        let taken = range.end.min(end);
        let piece = |start, end| Piece { start, end, row: Some(range.row), birth: range.birth };
        self.pieces.push(piece(from, taken));
        // One range became two; if there is no room for the second, it goes as well.
        if range.end > end && !self.put(end, range) {
            self.pieces.push(piece(end, range.end));
        }
        taken
    }

    fn gap(&mut self, start: u64, end: u64) {
        if start < end {
            self.pieces.push(Piece { start, end, row: None, birth: Tick::default() });
        }
    }

    /// Puts a range into a gap of the list; says whether there was room.
    fn put(&mut self, mut start: u64, mut range: Range) -> bool {
        if start >= range.end {
            return true;
        }
        let before = self.ranges.range(..start).next_back();
        let before = before.filter(|(_, other)| other.end == start && other.is_as(&range));
        let before = before.map(|(&from, other)| (from, other.birth));
        let behind = self.ranges.get(&range.end).filter(|other| other.is_as(&range)).copied();
        if before.is_none() && behind.is_none() && self.ranges.len() >= self.limit {
            self.beyond_limit = self.beyond_limit.saturating_add(range.end - start);
            return false;
        }
        // The first one's time, or one that is older by ever more could grow together.
        if let Some(behind) = behind {
            self.ranges.remove(&range.end);
            range = Range { end: behind.end, birth: behind.birth, ..range };
        }
        if let Some((from, birth)) = before {
            start = from;
            range.birth = birth;
        }
        self.ranges.insert(start, range);
        true
    }

    /// Puts a range back where nothing newer is, and notes in `pieces` what is back.
    fn fill(&mut self, start: u64, range: Range) {
        let mut at = start;
        while at < range.end {
            if let Some((_, newer)) = self.ranges.range(..=at).next_back()
                && newer.end > at
            {
                at = newer.end;
                continue;
            }
            let stop = self.ranges.range(at..range.end).next().map_or(range.end, |(&from, _)| from);
            if self.put(at, Range { end: stop, ..range }) {
                let (row, birth) = (Some(range.row), range.birth);
                self.pieces.push(Piece { start: at, end: stop, row, birth });
            }
            at = stop;
        }
    }
}

impl Range {
    /// Whether they are one if they touch.
    fn is_as(&self, other: &Self) -> bool {
        let apart = self.birth.0.abs_diff(other.birth.0);
        self.row == other.row && apart <= self.birth.0.max(other.birth.0) / SAME_TIME
    }
}

/// The whole pages of a range, cut off at the end of the address space.
fn pages(at: RemoteAddr, length: u64) -> (u64, u64) {
    let down = |address: u64| address & !(PAGE - 1);
    let start = down(at.get());
    let length = length.checked_next_multiple_of(PAGE).unwrap_or(down(u64::MAX));
    (start, down(start.saturating_add(length)).max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tick = Tick(0);

    fn piece(start: u64, end: u64, row: Option<u32>) -> Piece {
        let birth = Tick::default();
        Piece { start: start * PAGE, end: end * PAGE, row: row.map(RowId), birth }
    }

    fn page(number: u64) -> RemoteAddr {
        RemoteAddr::new(number * PAGE)
    }

    #[test]
    fn lengths_count_in_whole_pages_and_a_part_can_go() {
        let mut mappings = Mappings::new(10);
        assert_eq!(mappings.mapped(page(8), 3 * PAGE + 1, RowId(1), NOW).bytes, 4 * PAGE);
        assert_eq!(mappings.unmapped(5, page(9), 1), [piece(9, 10, Some(1))]);
        let rest = [piece(8, 9, Some(1)), piece(9, 10, None), piece(10, 12, Some(1))];
        assert_eq!(mappings.unmapped(6, page(8), 4 * PAGE), rest);
        assert_eq!(mappings.older_bytes_unmapped(), PAGE);
    }

    #[test]
    fn a_mapping_takes_the_place_of_what_is_there() {
        let mut mappings = Mappings::new(10);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), NOW);
        let placed = mappings.mapped(page(10), 4 * PAGE, RowId(2), NOW);
        assert_eq!(placed.replaced, [piece(10, 12, Some(1))]);
        assert_eq!(mappings.older_bytes_unmapped(), 0);
    }

    #[test]
    fn an_unmapping_that_failed_is_undone_but_for_what_is_newer() {
        let mut mappings = Mappings::new(10);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), NOW);
        mappings.unmapped(3, page(7), 5 * PAGE);
        mappings.mapped(page(9), PAGE, RowId(2), NOW);
        let back = [piece(8, 9, Some(1)), piece(10, 12, Some(1))];
        assert_eq!(mappings.restored(3), back);
        assert_eq!(mappings.older_bytes_unmapped(), 0);
        assert_eq!(mappings.restored(3), []);
    }

    #[test]
    fn what_the_kernel_refuses_brings_nothing_back_that_others_unmap_meanwhile() {
        let mut mappings = Mappings::new(10);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), NOW);
        assert_eq!(mappings.unmapped(3, page(4), 1 << 62), []);
        assert_eq!(mappings.unmapped(4, RemoteAddr::new(8 * PAGE + 1), PAGE), []);
        assert_eq!(mappings.unmapped(5, page(8), 4 * PAGE), [piece(8, 12, Some(1))]);
        assert_eq!(mappings.restored(3), []);
        assert_eq!(mappings.restored(4), []);
        assert_eq!(mappings.len(), 0);
    }

    #[test]
    fn what_touches_is_one_if_it_came_at_about_the_same_time() {
        let mut mappings = Mappings::new(10);
        for (at, birth) in [(8, 1000), (7, 1010), (9, 1030), (10, 2000), (6, 1064)] {
            mappings.mapped(page(at), PAGE, RowId(1), Tick(birth));
        }
        let all: Vec<_> =
            mappings.all().map(|(range, _, birth)| (range.start / PAGE, birth.0)).collect();
        assert_eq!(all, [(6, 1000), (10, 2000)]);
    }

    #[test]
    fn a_full_list_counts_what_it_cannot_hold() {
        let mut mappings = Mappings::new(1);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), NOW);
        assert!(!mappings.mapped(page(20), PAGE, RowId(1), NOW).kept);
        let gone = [piece(9, 10, Some(1)), piece(10, 12, Some(1))];
        assert_eq!(mappings.unmapped(3, page(9), PAGE), gone, "no room for the upper part");
        assert_eq!((mappings.len(), mappings.bytes_beyond_limit()), (1, 3 * PAGE));
    }
}
