//! Pages that were read a short while ago: what is wanted next often lies on one of them.

use std::ops::Range;

/// Memory is kept in pieces of this size.
pub(crate) const PAGE: u64 = 4096;
/// The same, of bytes here.
const BYTES: usize = 4096;
/// So many are kept.
const KEPT: usize = 1024;
/// There is no such page.
const NONE: u64 = u64::MAX;

/// The pages, each in the place that its number says, modulo their count.
pub(crate) struct Pages {
    /// By place: where it begins.
    at: Vec<u64>,
    /// By place: so many bytes of it could be read.
    length: Vec<usize>,
    bytes: Vec<u8>,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self { at: vec![NONE; KEPT], length: vec![0; KEPT], bytes: vec![0; KEPT * BYTES] }
    }

    /// Whether a page is kept.
    #[inline]
    pub(crate) fn has(&self, page: u64) -> bool {
        self.at.get(place(page)) == Some(&page)
    }

    /// The bytes of a page, as far as they could be read; `None` if it is not kept.
    #[inline]
    pub(crate) fn get(&self, page: u64) -> Option<&[u8]> {
        let place = place(page);
        let length = *self.length.get(place).filter(|_| self.has(page))?;
        self.bytes.get(place * BYTES..place * BYTES + length)
    }

    /// Keeps the pages of a range, no more than there are places, which `read` fills; answers whether it filled all. A
    /// single page is kept as far as it was filled, of several none unless all were.
    pub(crate) fn keep(
        &mut self,
        range: &Range<u64>,
        read: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        let (first, length) = (place(range.start), range.end.saturating_sub(range.start));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // Their places follow each other, but for the last and the first of all.
        if (first * BYTES).saturating_add(length) > self.bytes.len() {
            return false;
        }
        let count = length.div_ceil(BYTES);
        self.at[first..first + count].fill(NONE);
        let read = read(&mut self.bytes[first * BYTES..first * BYTES + length]);
        let is_all = read == length;
        if is_all || count == 1 {
            for (place, at) in (first..first + count).zip((range.start..).step_by(BYTES)) {
                self.at[place] = at;
                self.length[place] = BYTES.min(if is_all { length } else { read });
            }
        }
        is_all
    }
}

fn place(page: u64) -> usize {
    usize::try_from((page / PAGE) % KEPT as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_kept_until_another_needs_its_place() {
        let mut pages = Pages::new();
        let fill = |with: u8, count: usize| {
            move |bytes: &mut [u8]| {
                bytes[..count].fill(with);
                count
            }
        };
        assert!(pages.keep(&(0x5000..0x8000), fill(1, 0x3000)));
        assert_eq!(pages.get(0x6000), Some(&[1; BYTES][..]));
        assert_eq!((pages.get(0x4000), pages.get(0x8000)), (None, None));
        let same_place = 0x6000 + KEPT as u64 * PAGE;
        assert!(!pages.keep(&(same_place..same_place + PAGE), fill(2, 10)));
        assert_eq!((pages.get(0x6000), pages.get(same_place)), (None, Some(&[2; 10][..])));
        assert!(!pages.keep(&(0x5000..0x7000), fill(3, 0x1800)), "of several none");
        assert_eq!((pages.has(0x5000), pages.has(0x6000), pages.has(0x7000)), (false, false, true));
        let last = (KEPT as u64 - 1) * PAGE;
        assert!(!pages.keep(&(last..last + 2 * PAGE), fill(4, 0x2000)), "they lie apart");
        assert!(pages.keep(&(last..last + PAGE), fill(4, 0x1000)));
        assert_eq!(pages.get(!(PAGE - 1)), None);
    }
}
