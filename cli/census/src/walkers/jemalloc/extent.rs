//! Extents: runs of pages that jemalloc has, and what each is used for.

use std::ops::Range;

use crate::Moment;

use super::classes::Quantum;

/// Words of an extent's books that are read.
const WORDS: usize = 16;
/// No slab has more regions.
pub const MOST_REGIONS: u64 = 512;
const PAGE: u64 = 4096;

/// What an extent is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The program has it, or blocks of it.
    Active,
    /// Free; its pages are as they were left.
    Dirty,
    /// Free; the kernel may take its pages.
    Muzzy,
    /// Free; addresses alone.
    Retained,
    /// A call is in the middle of a change to it.
    Changing,
}

/// An extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where the block of a large one begins; the extent itself begins at that page.
    pub at: u64,
    /// Its bytes, whole pages.
    pub size: u64,
    /// Its books.
    pub books: u64,
    /// What it is used for.
    pub used: Use,
    /// Whether it is cut into regions.
    pub is_slab: bool,
    /// Whether it is part of a huge page that jemalloc divides itself.
    pub is_huge_part: bool,
    /// The number of its arena.
    pub arena: u32,
    /// Its size class.
    pub class: u32,
    /// Free regions, as it counts them itself.
    pub free: u32,
    /// Free regions: a bit set for each.
    pub bitmap: [u64; 8],
}

impl Extent {
    /// Out of the books at an address; `None` if these are none.
    pub fn read(moment: &Moment<'_>, books: u64) -> Option<Self> {
        let mut words = [0; WORDS];
        for (index, word) in (0..).zip(&mut words) {
            *word = moment.word(books.checked_add(8 * index)?)?;
        }
        Self::parse(books, &words)
    }

    fn parse(books: u64, words: &[u64; WORDS]) -> Option<Self> {
        let [bits, at, size] = [words[0], words[1], words[2] & !(PAGE - 1)];
        let field = |shift: u32, width: u32| {
            u32::try_from(bits >> shift & ((1 << width) - 1)).unwrap_or(u32::MAX)
        };
        let is_sound = at >= PAGE && size > 0 && at.checked_add(size)? < 1 << 48;
        is_sound.then(|| Self {
            at,
            size,
            books,
            used: match field(17, 3) {
                0 => Use::Active,
                1 => Use::Dirty,
                2 => Use::Muzzy,
                3 => Use::Retained,
                _ => Use::Changing,
            },
            is_slab: field(12, 1) == 1,
            is_huge_part: field(14, 1) == 1,
            arena: field(0, 12),
            class: field(20, 8),
            free: field(28, 10),
            bitmap: std::array::from_fn(|index| words[8 + index]),
        })
    }

    /// Its pages.
    pub fn pages(&self) -> Range<u64> {
        let start = self.at & !(PAGE - 1);
        start..start + self.size
    }

    /// A slab's regions: how many, and the bytes of each. `None` if it is none that can be.
    pub fn regions(&self, quantum: Quantum) -> Option<(u64, u64)> {
        let is_slab = self.is_slab && self.used == Use::Active && self.class < quantum.small();
        let bytes = is_slab.then(|| quantum.bytes(self.class))??;
        let count = self.size / bytes;
        (count > 0 && count <= MOST_REGIONS && self.at.is_multiple_of(PAGE))
            .then_some((count, bytes))
    }

    /// Whether a region is free.
    pub fn is_free(&self, region: u64) -> bool {
        let word = usize::try_from(region / 64).ok().and_then(|word| self.bitmap.get(word));
        word.is_none_or(|word| word >> (region % 64) & 1 == 1)
    }

    /// Free regions by the bitmap, whose words behind the last region's may hold anything.
    pub fn free_bits(&self, count: u64) -> u32 {
        let words = usize::try_from(count.div_ceil(64)).unwrap_or(0);
        self.bitmap.iter().take(words).map(|word| word.count_ones()).sum()
    }

    /// Whole pages of a slab on which all regions are free, or that lie behind its last region: nothing is read
    /// there any more. None of a slab that contradicts itself.
    pub fn free_pages(&self, quantum: Quantum) -> Vec<Range<u64>> {
        let mut pages: Vec<Range<u64>> = Vec::new();
        let Some((count, bytes)) = self.regions(quantum).filter(|_| self.adds_up(quantum)) else {
            return pages;
        };
        for page in self.pages().step_by(4096) {
            let first = (page - self.at) / bytes;
            let last = ((page + PAGE - 1 - self.at) / bytes).min(count - 1);
            let is_free = (first..=last).all(|region| self.is_free(region));
            match pages.last_mut() {
                _ if !is_free => {}
                Some(before) if before.end == page => before.end += PAGE,
                _ => pages.push(page..page + PAGE),
            }
        }
        pages
    }

    /// Whether the bitmap has as many bits as the slab counts free regions, and none in its last word
    /// behind the last region.
    pub fn adds_up(&self, quantum: Quantum) -> bool {
        let Some((count, _)) = self.regions(quantum) else { return false };
        let behind = count..count.next_multiple_of(64);
        self.free_bits(count) == self.free && behind.into_iter().all(|region| !self.is_free(region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab(class: u64, size: u64, free: u64, first: u64) -> Extent {
        let mut words = [0; WORDS];
        words[0] = 3 | 1 << 12 | class << 20 | free << 28;
        words[1] = 0x7f00_0000_0000;
        words[2] = size | 77;
        words[8] = first;
        Extent::parse(0x1000, &words).unwrap()
    }

    #[test]
    fn pages_are_free_whose_regions_all_are() {
        // Five pages are 64 regions of 320 bytes. The 13th lies on the first two pages.
        let class = (0..64).find(|class| Quantum::Sixteen.bytes(*class) == Some(320)).unwrap();
        let class = u64::from(class);
        let pages = |used: &[u64]| {
            let bits = used.iter().fold(u64::MAX, |bits, region| bits & !(1 << region));
            let slab = slab(class, 5 << 12, 64 - used.len() as u64, bits);
            assert_eq!(slab.regions(Quantum::Sixteen), Some((64, 320)));
            let number = |at: u64| (at - slab.at) >> 12;
            let free = slab.free_pages(Quantum::Sixteen).into_iter();
            free.map(|pages| (number(pages.start), number(pages.end))).collect::<Vec<_>>()
        };
        assert_eq!(pages(&[]), [(0, 5)]);
        assert_eq!(pages(&[12]), [(2, 5)]);
        assert_eq!(pages(&[0, 63]), [(1, 4)]);
        assert_eq!(pages(&[30]), [(0, 2), (3, 5)]);
        // Its count and its bitmap differ.
        assert!(slab(class, 5 << 12, 7, u64::MAX).free_pages(Quantum::Sixteen).is_empty());
    }

    #[test]
    fn a_slab_is_told_by_its_bits() {
        let slab = slab(3, 12288, 2, 0b1001);
        assert_eq!((slab.arena, slab.used, slab.class, slab.size), (3, Use::Active, 3, 12288));
        assert_eq!(slab.regions(Quantum::Sixteen), Some((256, 48)));
        assert!(slab.is_free(0) && !slab.is_free(1) && slab.is_free(3));
        assert!(slab.adds_up(Quantum::Sixteen));
    }

    #[test]
    fn a_slab_whose_bits_do_not_fit_does_not_add_up() {
        assert!(!slab(3, 12288, 3, 0b1001).adds_up(Quantum::Sixteen));
        // 64 bytes each with a step of 16: there are but 64 of them.
        let mut other = slab(4, 4096, 1, 0);
        other.bitmap[7] = 1;
        assert!(!other.adds_up(Quantum::Sixteen));
        assert!(slab(8, 4096, 1, 1 << 31).adds_up(Quantum::Sixteen));
        assert!(!slab(8, 4096, 1, 1 << 32).adds_up(Quantum::Sixteen));
        assert_eq!(slab(1, 1 << 20, 0, 0).regions(Quantum::Sixteen), None);
    }
}
