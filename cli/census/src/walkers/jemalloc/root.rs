//! The tree that leads from every page to its extent, found without symbols.
//!
//! A word of a leaf leads to the books of an extent, and these say where the extent begins: at that very
//! page, or it reaches over it. No other table of pointers does so. How many levels the tree has depends on
//! the widest address of the machine that jemalloc was built on, so both shapes are looked for.

use std::ops::Range;

use crate::Moment;

const PAGE: u64 = 4096;
/// Words that are looked at together.
const TOGETHER: usize = 512;
/// Extents that must be right before a leaf is one, if there are as many.
const ENOUGH: u32 = 64;
/// Words of the first level that are looked at beside the one that may be of it.
const NEAR: usize = 32;
/// Pages that may be looked at in vain.
const MOST_PAGES: u64 = 1 << 20;

/// How the bits of a page's number are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two levels of 18 bits; a leaf's word has the address of the books, and flags. For 48 bits.
    Two,
    /// Three levels of 15 bits; a leaf has two words a page, the second with the flags. For 57 bits.
    Three,
}

impl Shape {
    /// The bits of each level.
    fn bits(self) -> u32 {
        match self {
            Self::Two => 18,
            Self::Three => 15,
        }
    }

    /// The words of a leaf for each page.
    fn words(self) -> u64 {
        match self {
            Self::Two => 1,
            Self::Three => 2,
        }
    }

    /// Levels above the leaves.
    fn above(self) -> u32 {
        match self {
            Self::Two => 1,
            Self::Three => 2,
        }
    }

    /// The bytes of a node above the leaves.
    fn node(self) -> u64 {
        8 << self.bits()
    }

    fn leaf(self) -> u64 {
        self.node() * self.words()
    }

    /// The bytes of a node that a word of that level leads to.
    fn below(self, level: u32) -> u64 {
        if level == 1 { self.leaf() } else { self.node() }
    }
}

/// The tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Where its first level begins.
    pub at: u64,
    /// Which module has it, by index.
    pub image: usize,
    shape: Shape,
}

/// All of them: a process can have several jemallocs, but a module has one at most.
pub fn roots(moment: &Moment<'_>) -> Vec<Root> {
    let mut search = Search { moment, shape: Shape::Two, left: MOST_PAGES };
    let images = moment.images().iter().enumerate();
    images.filter_map(|(image, own)| of_image(&mut search, image, &own.data)).collect()
}

fn of_image(search: &mut Search<'_, '_>, image: usize, data: &[Range<u64>]) -> Option<Root> {
    [Shape::Two, Shape::Three].into_iter().find_map(|shape| {
        search.shape = shape;
        let at = search.root(data)?;
        Some(Root { at, image, shape })
    })
}

/// The search for a root of one shape.
struct Search<'a, 'm> {
    moment: &'a Moment<'m>,
    shape: Shape,
    /// Pages that may still be looked at.
    left: u64,
}

impl Search<'_, '_> {
    fn root(&mut self, data: &[Range<u64>]) -> Option<u64> {
        let bytes = self.shape.node();
        let mut last = 0;
        for range in data.iter().filter(|range| range.end - range.start >= bytes) {
            for part in self.moment.present(range) {
                for (at, words) in pieces(self.moment, &part) {
                    for index in 0..words.len() {
                        // Many words of a table are the same.
                        let word = words[index];
                        if word == 0 || word == last || !self.is_candidate(&words[index..]) {
                            continue;
                        }
                        last = word;
                        let Some(number) = self.node(word, self.shape.above()) else { continue };
                        let root = (at + 8 * index as u64).checked_sub(8 * number);
                        let fits = |root: &u64| range.start <= *root && root + bytes <= range.end;
                        if let Some(at) = root.filter(fits) {
                            return Some(at);
                        }
                    }
                }
                if self.left == 0 {
                    return None;
                }
            }
        }
        None
    }

    /// Whether the first of these words can be one of the first level, where all words are zero or lead to
    /// nodes. That tells it from most of what other tables have.
    fn is_candidate(&self, words: &[u64]) -> bool {
        let bytes = self.shape.below(self.shape.above());
        let mut near = words.iter().take(NEAR).filter(|word| **word != 0);
        near.all(|word| is_place(self.moment, *word, bytes))
    }

    /// The number within its level of the node that a word of `level` leads to; `None` if it is none.
    fn node(&mut self, at: u64, level: u32) -> Option<u64> {
        if level == 1 {
            return self.leaf(at);
        }
        let (moment, shape) = (self.moment, self.shape);
        let mut number = None;
        for part in moment.present(&(at..at + shape.node())) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words).filter(|(_, word)| *word != 0) {
                    if !is_place(moment, word, shape.below(level - 1)) {
                        return None;
                    }
                    let below = self.node(word, level - 1)?;
                    let index = (piece + 8 * offset - at) / 8;
                    let own = below >> shape.bits();
                    if below & mask(shape) != index || number.is_some_and(|number| number != own) {
                        return None;
                    }
                    number = Some(own);
                }
            }
        }
        number
    }

    fn leaf(&mut self, at: u64) -> Option<u64> {
        let (moment, shape) = (self.moment, self.shape);
        let (mut right, mut wrong, mut number) = (0_u32, 0_u32, None);
        for part in moment.present(&(at..at + shape.leaf())) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words) {
                    let place = (piece + 8 * offset - at) / 8;
                    if word == 0 || is_cleared(word) || place % shape.words() != 0 {
                        continue;
                    }
                    match self.leaf_of(books(word), place / shape.words()) {
                        Some(own) if number.is_none_or(|number| number == own) => {
                            number = Some(own);
                            right += 1;
                        }
                        _ => wrong += 1,
                    }
                    if wrong > 8 && wrong > right {
                        return None;
                    }
                    if right >= ENOUGH && wrong <= right / 8 {
                        return number;
                    }
                }
            }
        }
        // One extent alone proves a leaf of a tree that is found by others too.
        let least = if shape == Shape::Two { 4 } else { 1 };
        number.filter(|_| right >= least && wrong <= right / 8)
    }

    /// The number of the leaf that has an extent which begins at that page of the leaf, or reaches over it.
    fn leaf_of(&self, books: u64, page: u64) -> Option<u64> {
        let words = [8, 16].map(|offset| self.moment.word(books.checked_add(offset)?));
        let [Some(at), Some(size)] = words else { return None };
        let (first, count) = (at / PAGE, size / PAGE);
        if count == 0 || count >= 1 << 36 || first >= 1 << 36 {
            return None;
        }
        // The first page of that number from where it begins.
        let own = (first & !mask(self.shape)) | page;
        let own = if own < first { own + mask(self.shape) + 1 } else { own };
        (own < first + count).then_some(own >> self.shape.bits())
    }
}

fn mask(shape: Shape) -> u64 {
    (1 << shape.bits()) - 1
}

fn is_place(moment: &Moment<'_>, word: u64, bytes: u64) -> bool {
    let is_aligned = word >= PAGE && word.is_multiple_of(64) && word < 1 << 47;
    let is_private = |at| moment.region(at).is_some_and(crate::Region::is_private_memory);
    is_aligned && is_private(word) && is_private(word + bytes - 1)
}

/// The address of an extent's books in a word of a leaf.
fn books(word: u64) -> u64 {
    (word << 16 >> 16) & !127
}

/// Whether a word of a leaf is that of a page without an extent any more: nothing but the class of none.
fn is_cleared(word: u64) -> bool {
    books(word) == 0 && matches!(word >> 48, 0xe8 | 0xeb)
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

/// The reading of a whole tree.
struct Reading<'a, 'm> {
    moment: &'a Moment<'m>,
    shape: Shape,
    entries: Vec<(u64, u64)>,
    left: u64,
}

impl Root {
    /// The books of all extents, by the page that leads to each: `(page, books)`, ascending, none twice in
    /// a row. `None` if nodes overlap each other, as only forged ones do.
    pub fn entries(&self, moment: &Moment<'_>) -> Option<Vec<(u64, u64)>> {
        let private = moment.regions().iter().filter(|region| region.writable);
        let left = private.map(|region| region.bytes() / PAGE).sum();
        let mut reading = Reading { moment, shape: self.shape, entries: Vec::new(), left };
        reading.node(self.at, self.shape.above(), 0)?;
        Some(reading.entries)
    }
}

impl Reading<'_, '_> {
    fn node(&mut self, at: u64, level: u32, number: u64) -> Option<()> {
        let (moment, shape) = (self.moment, self.shape);
        for part in moment.present(&(at..at + shape.node())) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words) {
                    if word == 0 || !is_place(moment, word, shape.below(level)) {
                        continue;
                    }
                    let number = number << shape.bits() | (piece + 8 * offset - at) / 8;
                    match level {
                        1 => self.leaf(word, number)?,
                        _ => self.node(word, level - 1, number)?,
                    }
                }
            }
        }
        Some(())
    }

    fn leaf(&mut self, at: u64, number: u64) -> Option<()> {
        let (moment, shape) = (self.moment, self.shape);
        let mut last = 0;
        for part in moment.present(&(at..at + shape.leaf())) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words) {
                    let place = (piece + 8 * offset - at) / 8;
                    if place % shape.words() != 0 {
                        continue;
                    }
                    let books = books(word);
                    if books != 0 && books != last {
                        let page = number << shape.bits() | place / shape.words();
                        self.entries.push((page * PAGE, books));
                    }
                    last = books;
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_a_word_are_told_from_its_flags() {
        assert_eq!(books(0x0003_7f12_3456_7881), 0x7f12_3456_7880);
        assert_eq!(books(0x00e8_0000_0000_0001), 0);
    }

    #[test]
    fn each_shape_divides_all_pages() {
        let bits = |shape: Shape| shape.bits() * (shape.above() + 1);
        assert_eq!((bits(Shape::Two), bits(Shape::Three)), (48 - 12, 57 - 12));
        assert_eq!((Shape::Two.leaf(), Shape::Three.leaf()), (2 << 20, 512 << 10));
    }
}
