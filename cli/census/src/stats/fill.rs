//! How full pages are: of those in memory, how much blocks in use take.

use serde::{Deserialize, Serialize};

use super::Resident;

const PAGE: u64 = 4096;

/// Pages of allocators that are in memory, by the share of them that blocks in use take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// No block in use lies on them.
    pub none: u64,
    /// Less than a tenth.
    pub below_10: u64,
    /// Less than a half.
    pub below_50: u64,
    /// Less than nine tenths.
    pub below_90: u64,
    /// More.
    pub full: u64,
    /// Bytes of blocks in use on pages that are less than a tenth full.
    pub sparse_live: u64,
    #[serde(skip)]
    page: u64,
    #[serde(skip)]
    live: u64,
}

impl Fill {
    /// Counts a block in use; blocks come in ascending order.
    #[inline]
    pub fn add(&mut self, at: u64, end: u64, resident: &mut Resident) {
        let (first, last) = (at / PAGE, end.saturating_sub(1) / PAGE);
        if first == last {
            return self.add_to(first, end - at, resident);
        }
        self.add_to(first, (first + 1) * PAGE - at, resident);
        let middle = (first + 1) * PAGE..last * PAGE;
        if middle.start < middle.end {
            self.full += resident.overlap(&middle).resident / PAGE;
        }
        self.add_to(last, end - last * PAGE, resident);
    }

    #[inline]
    fn add_to(&mut self, page: u64, bytes: u64, resident: &mut Resident) {
        if page != self.page {
            self.flush(resident);
            (self.page, self.live) = (page, 0);
        }
        self.live += bytes;
    }

    fn flush(&mut self, resident: &mut Resident) {
        let at = self.page * PAGE;
        if self.live == 0 || resident.overlap(&(at..at + PAGE)).resident == 0 {
            return;
        }
        match self.live * 100 / PAGE {
            0..10 => {
                self.below_10 += 1;
                self.sparse_live += self.live;
            }
            10..50 => self.below_50 += 1,
            50..90 => self.below_90 += 1,
            _ => self.full += 1,
        }
    }

    /// Ends the count; `bytes` of allocators' pages are in memory.
    pub fn finish(&mut self, bytes: u64, resident: &mut Resident) {
        self.flush(resident);
        (self.page, self.live) = (0, 0);
        let counted = self.below_10 + self.below_50 + self.below_90 + self.full;
        self.none = (bytes / PAGE).saturating_sub(counted);
    }

    /// Bytes on pages that blocks in use take less than a tenth of.
    pub fn sparse(&self) -> u64 {
        (self.none + self.below_10) * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn each_page_is_counted_once_by_what_is_in_use_on_it() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        (0x10000..0x18000).step_by(0x1000).for_each(|page| memory.write(page, 1));
        let mut resident = Resident::of(&memory.moment());
        let mut fill = Fill::default();
        for (at, size) in [(0x10010, 100), (0x10100, 100), (0x11000, 1000), (0x11800, 0x2900)] {
            fill.add(at, at + size, &mut resident);
        }
        // Nothing of this is in memory.
        fill.add(0x1a000, 0x1b000, &mut resident);
        fill.finish(0x8000, &mut resident);
        let counts = (fill.none, fill.below_10, fill.below_50, fill.below_90, fill.full);
        assert_eq!(counts, (3, 2, 0, 1, 2));
        assert_eq!((fill.sparse(), fill.sparse_live), (5 * 4096, 456));
    }
}
