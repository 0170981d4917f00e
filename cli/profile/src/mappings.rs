//! The pages that were mapped since the attach and are not unmapped yet, with the stack that mapped them.
//!
//! Byte for byte what the kernel does: lengths count in whole pages, an unmapping may take a part
//! of one mapping or many at once, a new mapping replaces what is in its place. Each mapping is a range of
//! its own, until there are so many that those with one owner that touch are made one, as in the kernel's
//! own list.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use heapattach_process::addr::RemoteAddr;

use crate::{block::RowId, tick::Tick};

const PAGE: u64 = 4096;

/// No program has addresses beyond, on any processor of this kind.
const ADDRESSES: u64 = 1 << 56;

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
    /// When it was mapped, if it has a stack.
    pub birth: Tick,
}

/// A piece that was taken out of the list, and can come back.
#[derive(Clone, Debug)]
struct Taken {
    piece: Piece,
    /// The range that it was a part of.
    of: Range<u64>,
    was_whole: bool,
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

/// A range that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its addresses.
    pub range: Range<u64>,
    /// The stack that mapped it.
    pub row: RowId,
    /// When it was mapped.
    pub birth: Tick,
    /// Whether it is one mapping, of which at most the ends were unmapped, and in the place of none.
    pub is_whole: bool,
}

/// What is behind the beginning of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    end: u64,
    row: RowId,
    birth: Tick,
    is_whole: bool,
}

/// The live mappings.
#[derive(Debug)]
pub struct Mappings {
    /// By their beginning.
    ranges: BTreeMap<u64, Held>,
    limit: usize,
    /// The last unmappings, by their stamps, ascending.
    announced: VecDeque<(u64, Taken)>,
    /// What was taken last; and the same as it is told.
    taken: Vec<Taken>,
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
        let (ranges, announced, taken, pieces) = Default::default();
        Self { ranges, limit, announced, taken, pieces, older: 0, beyond_limit: 0 }
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

    /// All ranges, ascending.
    pub fn all(&self) -> impl Iterator<Item = Mapped> {
        self.ranges.iter().map(|(&start, &held)| {
            let Held { end, row, birth, is_whole } = held;
            Mapped { range: start..end, row, birth, is_whole }
        })
    }

    /// A range was mapped.
    pub fn mapped(&mut self, at: RemoteAddr, length: u64, row: RowId, now: Tick) -> Placed<'_> {
        let (start, end) = pages(at, length);
        self.take(start, end);
        self.tell_taken();
        self.pieces.retain(|piece| piece.row.is_some());
        // What takes the place of another is a part of what its owner divides by itself.
        let is_whole = self.pieces.is_empty();
        let kept = self.put(start, Held { end, row, birth: now, is_whole });
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
        self.tell_taken();
        for taken in self.taken.drain(..) {
            if taken.piece.row.is_none() {
                self.older = self.older.saturating_add(taken.piece.bytes());
            }
            if self.announced.len() >= REMEMBERED {
                self.announced.pop_front();
            }
            self.announced.push_back((stamp, taken));
        }
        &self.pieces
    }

    /// What was unmapped after this stamp, ascending and without overlaps; `None` if that is more than is
    /// remembered.
    pub fn unmapped_since(&self, stamp: u64) -> Option<Vec<Range<u64>>> {
        let first = self.announced.partition_point(|&(at, _)| at <= stamp);
        if first == 0 && self.announced.len() >= REMEMBERED {
            return None;
        }
        let pieces = self.announced.range(first..).map(|(_, taken)| taken.piece);
        let pieces = pieces.filter(|piece| piece.row.is_some());
        let mut ranges: Vec<_> = pieces.map(|piece| piece.start..piece.end).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        Some(ranges)
    }

    /// The unmapping with the stamp `announced` did not happen. Returns what is back.
    pub fn restored(&mut self, announced: u64) -> &[Piece] {
        self.pieces.clear();
        let first = self.announced.partition_point(|&(stamp, _)| stamp < announced);
        let behind = self.announced.partition_point(|&(stamp, _)| stamp <= announced);
        let back: Vec<_> = self.announced.drain(first..behind.max(first)).collect();
        for (_, taken) in back {
            match taken.piece.row {
                None => self.older = self.older.saturating_sub(taken.piece.bytes()),
                Some(row) => self.fill(&taken, row),
            }
        }
        &self.pieces
    }

    fn tell_taken(&mut self) {
        self.pieces.clear();
        self.pieces.extend(self.taken.iter().map(|taken| taken.piece));
    }

    /// Cuts the range out of the list, into `taken`, gaps included.
    fn take(&mut self, start: u64, end: u64) {
        self.taken.clear();
        if start >= end {
            return;
        }
        let mut at = start;
        if let Some((&from, range)) = self.ranges.range_mut(..start).next_back()
            && range.end > start
        {
            let (of, was_whole) = (from..range.end, range.is_whole);
            let is_split = range.end > end;
            range.is_whole &= !is_split;
            let held = std::mem::replace(range, Held { end: start, ..*range });
            at = self.cut(start, end, held, (of, was_whole));
        }
        while at < end
            && let Some((&from, &held)) = self.ranges.range(at..end).next()
        {
            self.ranges.remove(&from);
            self.gap(at, from);
            at = self.cut(from, end, held, (from..held.end, held.is_whole));
        }
        self.gap(at, end);
    }

    /// Notes a range that begins at `from` as taken up to `end`; what lies behind stays. Returns
    /// how far it was taken. Before it was cut it was a part `of` that, or all.
    fn cut(&mut self, from: u64, end: u64, held: Held, of: (Range<u64>, bool)) -> u64 {
        let behind = held.end.min(end);
        let (of, was_whole) = of;
        let Held { row, birth, .. } = held;
        let taken = |start, end| Taken {
            piece: Piece { start, end, row: Some(row), birth },
            of: of.clone(),
            was_whole,
        };
        self.taken.push(taken(from, behind));
        // One range became two; if there is no room for the second, it goes as well.
        if held.end > end && !self.put(end, held) {
            self.taken.push(taken(end, held.end));
        }
        behind
    }

    fn gap(&mut self, start: u64, end: u64) {
        if start < end {
            let piece = Piece { start, end, row: None, birth: Tick::default() };
            self.taken.push(Taken { piece, of: 0..0, was_whole: false });
        }
    }

    /// Puts a range into a gap of the list; says whether there was room.
    fn put(&mut self, start: u64, held: Held) -> bool {
        if start >= held.end {
            return true;
        }
        if self.ranges.len() < self.limit / 2 {
            self.ranges.insert(start, held);
            return true;
        }
        self.join(start, held)
    }

    /// The same, as one with those of the same owner that it touches.
    fn join(&mut self, mut start: u64, held: Held) -> bool {
        let Held { mut end, row, .. } = held;
        let touches = |range: &Held| (range.end, range.row) == (start, row);
        let before = self.ranges.range(..start).next_back();
        let before = before.filter(|(_, range)| touches(range)).map(|(&from, _)| from);
        let behind = self.ranges.get(&end).filter(|range| range.row == row).map(|range| range.end);
        if before.is_none() && behind.is_none() && self.ranges.len() >= self.limit {
            self.beyond_limit = self.beyond_limit.saturating_add(end - start);
            return false;
        }
        let is_whole = held.is_whole && before.is_none() && behind.is_none();
        if let Some(range_end) = behind {
            self.ranges.remove(&end);
            end = range_end;
        }
        start = before.unwrap_or(start);
        self.ranges.insert(start, Held { end, is_whole, ..held });
        true
    }

    /// Puts a range back where nothing newer is, and notes in `pieces` what is back.
    fn fill(&mut self, taken: &Taken, row: RowId) {
        let Piece { start, end, birth, .. } = taken.piece;
        let mut at = start;
        while at < end {
            if let Some((_, newer)) = self.ranges.range(..=at).next_back()
                && newer.end > at
            {
                at = newer.end;
                continue;
            }
            let stop = self.ranges.range(at..end).next().map_or(end, |(&from, _)| from);
            if self.unite(at, stop, taken, row) {
                self.pieces.push(Piece { start: at, end: stop, row: Some(row), birth });
            }
            at = stop;
        }
    }

    /// Puts a range into a gap of the list, as one with what is there still of the range that it was taken
    /// from.
    fn unite(&mut self, at: u64, stop: u64, taken: &Taken, row: RowId) -> bool {
        let Taken { piece: Piece { birth, .. }, of, was_whole } = taken;
        let is_its = |start: u64, held: &Held| {
            (held.row, held.birth) == (row, *birth) && of.start <= start && held.end <= of.end
        };
        let before = self.ranges.range(..at).next_back();
        let before = before.filter(|(start, held)| held.end == at && is_its(**start, held));
        let start = before.map_or(at, |(&start, _)| start);
        let behind = self.ranges.get(&stop).filter(|held| is_its(stop, held)).map(|held| held.end);
        let end = behind.unwrap_or(stop);
        let is_whole = *was_whole && (start..end) == *of;
        let held = Held { end, row, birth: *birth, is_whole };
        if let Some(end) = behind {
            self.ranges.remove(&stop);
            self.ranges.insert(start, Held { end, ..held });
            return true;
        }
        if start < at {
            self.ranges.insert(start, held);
            return true;
        }
        self.put(at, held)
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
        assert_eq!(
            mappings.mapped(page(8), 3 * PAGE + 1, RowId(1), Tick::default()).bytes,
            4 * PAGE
        );
        assert_eq!(mappings.unmapped(5, page(9), 1), [piece(9, 10, Some(1))]);
        let rest = [piece(8, 9, Some(1)), piece(9, 10, None), piece(10, 12, Some(1))];
        assert_eq!(mappings.unmapped(6, page(8), 4 * PAGE), rest);
        assert_eq!(mappings.older_bytes_unmapped(), PAGE);
    }

    #[test]
    fn a_mapping_takes_the_place_of_what_is_there() {
        let mut mappings = Mappings::new(10);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), Tick::default());
        let placed = mappings.mapped(page(10), 4 * PAGE, RowId(2), Tick::default());
        assert_eq!(placed.replaced, [piece(10, 12, Some(1))]);
        assert_eq!(mappings.older_bytes_unmapped(), 0);
    }

    #[test]
    fn an_unmapping_that_failed_is_undone_but_for_what_is_newer() {
        let mut mappings = Mappings::new(10);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), Tick::default());
        mappings.unmapped(3, page(7), 5 * PAGE);
        mappings.mapped(page(9), PAGE, RowId(2), Tick::default());
        let back = [piece(8, 9, Some(1)), piece(10, 12, Some(1))];
        assert_eq!(mappings.restored(3), back);
        assert_eq!(mappings.older_bytes_unmapped(), 0);
        assert_eq!(mappings.restored(3), []);
    }

    #[test]
    fn a_mapping_is_whole_until_it_is_divided_or_in_the_place_of_another() {
        let mut mappings = Mappings::new(10);
        let map = |mappings: &mut Mappings, at, pages| {
            mappings.mapped(page(at), pages * PAGE, RowId(1), Tick::of(at));
        };
        let told = |mappings: &Mappings| -> Vec<(u64, u64, bool)> {
            let all = mappings.all();
            all.map(|m| (m.range.start / PAGE, m.range.end / PAGE, m.is_whole)).collect()
        };
        map(&mut mappings, 8, 4);
        map(&mut mappings, 12, 4);
        assert_eq!(told(&mappings), [(8, 12, true), (12, 16, true)], "they touch");
        mappings.unmapped(1, page(8), PAGE);
        assert_eq!(told(&mappings)[0], (9, 12, true), "an end went");
        mappings.unmapped(2, page(13), PAGE);
        assert_eq!(told(&mappings)[1..], [(12, 13, false), (14, 16, false)]);
        map(&mut mappings, 9, 1);
        assert_eq!(told(&mappings)[..2], [(9, 10, false), (10, 12, true)]);
        assert_eq!(mappings.all().next().map(|m| m.birth), Some(Tick::of(9)));
    }

    #[test]
    fn what_the_kernel_refuses_brings_nothing_back_that_others_unmap_meanwhile() {
        let mut mappings = Mappings::new(10);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), Tick::default());
        assert_eq!(mappings.unmapped(3, page(4), 1 << 62), []);
        assert_eq!(mappings.unmapped(4, RemoteAddr::new(8 * PAGE + 1), PAGE), []);
        assert_eq!(mappings.unmapped(5, page(8), 4 * PAGE), [piece(8, 12, Some(1))]);
        assert_eq!(mappings.restored(3), []);
        assert_eq!(mappings.restored(4), []);
        assert_eq!(mappings.len(), 0);
    }

    #[test]
    fn what_was_unmapped_lately_is_known_unless_it_was_too_much() {
        let mut mappings = Mappings::new(10);
        for (stamp, at) in [(3, 8), (5, 12), (7, 9), (9, 20)] {
            mappings.mapped(page(at), PAGE, RowId(1), Tick::default());
            mappings.unmapped(stamp, page(at), 2 * PAGE);
        }
        let since = |mappings: &Mappings, stamp| {
            let ranges = mappings.unmapped_since(stamp)?;
            Some(ranges.iter().map(|r| (r.start / PAGE, r.end / PAGE)).collect::<Vec<_>>())
        };
        assert_eq!(since(&mappings, 0), Some(vec![(8, 10), (12, 13), (20, 21)]));
        assert_eq!(since(&mappings, 5), Some(vec![(9, 10), (20, 21)]));
        assert_eq!(since(&mappings, 9), Some(vec![]));
        for stamp in 10..=10 + REMEMBERED as u64 {
            mappings.mapped(page(8), PAGE, RowId(1), Tick::default());
            mappings.unmapped(stamp, page(8), PAGE);
        }
        assert_eq!(since(&mappings, 5), None);
        assert_eq!(since(&mappings, 11), Some(vec![(8, 9)]));
    }

    #[test]
    fn a_full_list_counts_what_it_cannot_hold() {
        let mut mappings = Mappings::new(1);
        mappings.mapped(page(8), 4 * PAGE, RowId(1), Tick::default());
        assert!(!mappings.mapped(page(20), PAGE, RowId(1), Tick::default()).kept);
        let gone = [piece(9, 10, Some(1)), piece(10, 12, Some(1))];
        assert_eq!(mappings.unmapped(3, page(9), PAGE), gone, "no room for the upper part");
        assert_eq!((mappings.len(), mappings.bytes_beyond_limit()), (1, 3 * PAGE));
    }
}
