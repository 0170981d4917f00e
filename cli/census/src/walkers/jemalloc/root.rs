//! The tree that leads from every page to its extent, found without symbols.
//!
//! It has two levels of 2^18 words each. A word of a leaf leads to the books of an extent, and these say
//! where the extent begins: at that very page, or it reaches over it. No other table of pointers does so.

use std::ops::Range;

use crate::Moment;

const WORDS: u64 = 1 << 18;
const BYTES: u64 = WORDS * 8;
const PAGE: u64 = 4096;
/// Words that are looked at together.
const TOGETHER: usize = 512;
/// Extents that must be right before a leaf is one, if there are as many.
const ENOUGH: u32 = 64;
/// Pages that may be looked at in vain in one module.
const MOST_PAGES: u64 = 1 << 17;

/// The tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Where its first level begins.
    pub at: u64,
    /// Which module has it, by index.
    pub image: usize,
}

/// All of them: a process can have several jemallocs, but a module has one at most.
pub fn roots(moment: &Moment<'_>) -> Vec<Root> {
    let images = moment.images().iter().enumerate();
    images.filter_map(|(image, own)| of_image(moment, image, &own.data)).collect()
}

fn of_image(moment: &Moment<'_>, image: usize, data: &[Range<u64>]) -> Option<Root> {
    let mut left = MOST_PAGES;
    let mut last = 0;
    for range in data.iter().filter(|range| range.end - range.start >= BYTES) {
        for part in moment.present(range) {
            for (at, words) in pieces(moment, &part) {
                for (index, word) in (0..).zip(words) {
                    let at = at + 8 * index;
                    // Many words of a table are the same.
                    if word == last || !is_place_of_leaf(moment, word) {
                        continue;
                    }
                    last = word;
                    let Some(gib) = leaf(moment, word, &mut left) else { continue };
                    let root = at.checked_sub(8 * gib);
                    let fits = |root: &u64| range.start <= *root && root + BYTES <= range.end;
                    if let Some(at) = root.filter(fits) {
                        return Some(Root { at, image });
                    }
                }
            }
            if left == 0 {
                return None;
            }
        }
    }
    None
}

fn is_place_of_leaf(moment: &Moment<'_>, word: u64) -> bool {
    let is_aligned = word >= PAGE && word.is_multiple_of(64) && word < 1 << 47;
    let is_private = |at| moment.region(at).is_some_and(crate::Region::is_private_memory);
    is_aligned && is_private(word) && is_private(word + BYTES - 1)
}

/// Which GiB a leaf speaks of; `None` if it is none.
fn leaf(moment: &Moment<'_>, at: u64, left: &mut u64) -> Option<u64> {
    let (mut right, mut wrong, mut gib) = (0_u32, 0_u32, None);
    for part in moment.present(&(at..at + BYTES)) {
        for (piece, words) in pieces(moment, &part) {
            *left = left.checked_sub(1)?;
            for (offset, word) in (0..).zip(words) {
                let books = books(word);
                if books == 0 {
                    continue;
                }
                let page = (piece + 8 * offset - at) / 8;
                match extent_of(moment, books, page) {
                    Some(own) if gib.is_none_or(|gib| gib == own) => {
                        gib = Some(own);
                        right += 1;
                    }
                    _ => wrong += 1,
                }
                if wrong > 8 && wrong > right {
                    return None;
                }
                if right >= ENOUGH && wrong <= right / 8 {
                    return gib;
                }
            }
        }
    }
    gib.filter(|_| right >= 4 && wrong <= right / 8)
}

/// The GiB of an extent that begins at that page of its GiB, or reaches over it.
fn extent_of(moment: &Moment<'_>, books: u64, page: u64) -> Option<u64> {
    let (at, size) = (moment.word(books + 8)?, moment.word(books + 16)?);
    let (first, count) = (at / PAGE, size / PAGE);
    if count == 0 || count >= 1 << 36 || first >= 1 << 36 {
        return None;
    }
    // The first page of that number from where it begins.
    let own = (first & !(WORDS - 1)) | page;
    let own = if own < first { own + WORDS } else { own };
    (own < first + count).then_some(own / WORDS)
}

/// The address of an extent's books in a word of a leaf.
pub fn books(word: u64) -> u64 {
    (word << 16 >> 16) & !127
}

/// Words of a range, in pieces.
fn pieces<'a>(
    moment: &'a Moment<'_>,
    range: &Range<u64>,
) -> impl Iterator<Item = (u64, Vec<u64>)> + 'a {
    let end = range.end;
    let starts = (range.start..end).step_by(TOGETHER * 8);
    starts.filter_map(move |at| {
        let count = usize::try_from((end - at) / 8).unwrap_or(0).min(TOGETHER);
        Some((at, moment.words(at, count)?))
    })
}

impl Root {
    /// The books of all extents, by the page that leads to each: `(page, books)`, ascending, none twice in
    /// a row. `None` if leaves overlap each other, as only forged ones do.
    pub fn entries(&self, moment: &Moment<'_>) -> Option<Vec<(u64, u64)>> {
        let mut entries = Vec::new();
        let private = moment.regions().iter().filter(|region| region.is_private_memory());
        let mut left = private.map(|region| region.bytes() / PAGE).sum();
        for part in moment.present(&(self.at..self.at + BYTES)) {
            for (piece, words) in pieces(moment, &part) {
                for (offset, leaf) in (0..).zip(words) {
                    let gib = (piece + 8 * offset - self.at) / 8;
                    if leaf != 0 && is_place_of_leaf(moment, leaf) {
                        of_leaf(moment, leaf, gib, &mut entries, &mut left)?;
                    }
                }
            }
        }
        Some(entries)
    }
}

fn of_leaf(
    moment: &Moment<'_>,
    leaf: u64,
    gib: u64,
    entries: &mut Vec<(u64, u64)>,
    left: &mut u64,
) -> Option<()> {
    let mut last = 0;
    for part in moment.present(&(leaf..leaf + BYTES)) {
        for (piece, words) in pieces(moment, &part) {
            *left = left.checked_sub(1)?;
            for (offset, word) in (0..).zip(words) {
                let books = books(word);
                if books != 0 && books != last {
                    let page = gib * WORDS + (piece + 8 * offset - leaf) / 8;
                    entries.push((page * PAGE, books));
                }
                last = books;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_a_word_are_told_from_its_flags() {
        assert_eq!(books(0x0003_7f12_3456_7881), 0x7f12_3456_7880);
        assert_eq!(books(0x00e8_0000_0000_0001), 0);
    }
}
