//! Units of memory that an allocator returns only as a whole, and what of each is in use and free: pages, and
//! slabs and spans that were cut into blocks of one size.

use std::ops::Range;

use crate::{Block, Moment, stats::Resident};

pub(super) const PAGE: u64 = 4096;
/// Less than so many percent in use is sparse.
const SPARSE: u64 = 10;

/// What is of interest of the blocks in use of a unit.
pub(super) trait Tally {
    /// Whose a block is.
    type Mark: Copy;
    /// The blocks of one unit.
    type Own: Default;

    /// A part of a block, of so many bytes; the first of its parts or another one.
    fn add(&mut self, own: &mut Self::Own, mark: Self::Mark, bytes: u64, is_first: bool);

    /// A unit with blocks in use, and in memory, has no more of them.
    fn end(&mut self, unit: &Ended, own: Self::Own);
}

/// A unit, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// In memory.
    pub resident: u64,
    /// Of blocks in use; no more than that.
    pub live: u64,
    /// Whole pages in memory that no block in use lies on.
    pub empty: u64,
}

impl Ended {
    /// Whether blocks in use take less than a tenth.
    pub fn is_sparse(&self) -> bool {
        self.live.saturating_mul(100) < self.resident.saturating_mul(SPARSE)
    }
}

/// Cuts what walkers tell into units.
pub(super) struct Units<T: Tally> {
    resident: Resident,
    range: Range<u64>,
    live: u64,
    /// The end of the last block in use, and whole pages before it without any.
    end: u64,
    empty: u64,
    own: T::Own,
    pub tally: T,
}

impl<T: Tally> Units<T> {
    pub fn new(moment: &Moment<'_>, tally: T) -> Self {
        let (range, live, end, empty, own) = Default::default();
        Self { resident: Resident::of(moment), range, live, end, empty, own, tally }
    }

    /// A block in use.
    pub fn block(&mut self, block: &Block, mark: T::Mark) {
        let end = block.at.saturating_add(block.size);
        let mut at = block.at;
        while at < end {
            if !self.range.contains(&at) {
                // Whole pages of a block are one unit, that is full.
                let page = at / PAGE * PAGE;
                let whole = end / PAGE * PAGE;
                let last = if at == page && whole > page { whole } else { page + PAGE };
                self.begin(page..last);
            }
            let part = at..end.min(self.range.end);
            let next = part.end;
            self.skip_to(part.start);
            self.live += part.end - part.start;
            self.end = self.end.max(part.end);
            self.tally.add(&mut self.own, mark, part.end - part.start, at == block.at);
            at = next;
        }
    }

    /// The blocks that come next lie in this one.
    pub fn begin(&mut self, range: Range<u64>) {
        self.flush();
        (self.end, self.range) = (range.start, range);
    }

    /// Whole pages between the last block and this address are empty.
    fn skip_to(&mut self, at: u64) {
        let pages = self.end.next_multiple_of(PAGE)..at / PAGE * PAGE;
        if pages.start < pages.end {
            self.empty += self.resident.overlap(&pages).resident;
        }
    }

    /// Ends a unit.
    pub fn flush(&mut self) {
        if self.live > 0 {
            self.skip_to(self.range.end);
        }
        let range = std::mem::take(&mut self.range);
        let [live, empty] = [&mut self.live, &mut self.empty].map(std::mem::take);
        let own = std::mem::take(&mut self.own);
        self.end = 0;
        let resident = self.resident.overlap(&range).resident;
        // Of what is not in memory nothing can be returned.
        if live > 0 && resident > 0 {
            self.tally.end(&Ended { resident, live: live.min(resident), empty }, own);
        }
    }
}
