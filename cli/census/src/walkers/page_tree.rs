//! The tree that leads from every page to the books of what has it, as jemalloc and tcmalloc keep one.
//!
//! It is found without symbols: a word of a leaf leads to books, and these say where the pages begin that
//! they speak of: at the very page of that word, or they reach over it. No other table of pointers does so.

use std::ops::Range;

use crate::{Moment, Region};

/// Pages of memory, in which tables are read.
const PAGE: u64 = 4096;
/// Words that are looked at together.
const TOGETHER: usize = 512;
/// Books that must be right before a leaf is one, if there are as many.
const ENOUGH: u32 = 64;
/// Words of the first level that are looked at beside the one that may be of it.
const NEAR: usize = 32;
/// So many zeros before a word begin another table: the words of a first level lie far apart, as the memory does that they
/// are of. Of one table so many words are looked at, then one of so many, and the last: a large one may be of anything.
const GAP: usize = 64;
const FIRST: usize = 64;
const ONE_OF: usize = 512;
/// Pages that may be looked at in vain.
const MOST_PAGES: u64 = 1 << 20;

/// How a tree is built, and what its leaves lead to.
#[derive(Debug)]
pub struct Shape {
    /// The bits of a page's number that each level tells, the first level first.
    pub bits: &'static [u32],
    /// The words of a leaf for each page, of which the first leads to the books.
    pub words: u64,
    /// The bits of an address within a page.
    pub page: u32,
    /// What addresses of nodes are multiples of.
    pub aligned: u64,
    /// The address of the books in a word of a leaf, or 0.
    pub books: fn(u64) -> u64,
    /// Whether a word of a leaf, though not zero, is that of a page without an owner.
    pub is_cleared: fn(u64) -> bool,
    /// The first page and the number of pages that books speak of.
    pub pages: fn(&Moment<'_>, u64) -> Option<(u64, u64)>,
    /// Books that must be right in a leaf.
    pub least: u32,
}

/// A tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Where its first level begins.
    pub at: u64,
    /// Which module has it, by index.
    pub image: usize,
    shape: &'static Shape,
}

impl Shape {
    /// The bytes of a node of that level, counted from the first.
    fn bytes(&self, level: usize) -> u64 {
        let words = if level + 1 == self.bits.len() { self.words } else { 1 };
        (8 << self.bits.get(level).copied().unwrap_or(0)) * words
    }

    /// The last number of a node's words.
    fn mask(&self, level: usize) -> u64 {
        (1 << self.bits.get(level).copied().unwrap_or(0)) - 1
    }

    fn is_place(&self, moment: &Moment<'_>, word: u64, level: usize) -> bool {
        let bytes = self.bytes(level);
        let is_aligned = word >= PAGE && word.is_multiple_of(self.aligned) && word < 1 << 47;
        let is_private = |at| moment.region(at).is_some_and(Region::is_private_memory);
        is_aligned && is_private(word) && is_private(word + bytes - 1)
    }
}

/// The search for trees.
pub struct Search<'a, 'm> {
    moment: &'a Moment<'m>,
    shape: &'static Shape,
    /// Pages that may still be looked at.
    left: u64,
}

impl<'a, 'm> Search<'a, 'm> {
    /// The trees of all modules: each has one at most, of the first shape that fits.
    pub fn all(moment: &'a Moment<'m>, shapes: &'static [Shape]) -> Vec<Tree> {
        let Some(shape) = shapes.first() else { return Vec::new() };
        let mut search = Self { moment, shape, left: MOST_PAGES };
        let images = moment.images().iter().enumerate();
        let trees = images.filter_map(|(image, own)| {
            shapes.iter().find_map(|shape| {
                search.shape = shape;
                Some(Tree { at: search.root(&own.data)?, image, shape })
            })
        });
        trees.collect()
    }

    fn root(&mut self, data: &[Range<u64>]) -> Option<u64> {
        let bytes = self.shape.bytes(0);
        let (mut last, mut table) = (0, Table::default());
        for range in data.iter().filter(|range| range.end - range.start >= bytes) {
            for part in self.moment.present(range) {
                for (at, words) in pieces(self.moment, &part) {
                    for index in 0..words.len() {
                        // Many words of a table are the same.
                        let word = words[index];
                        if word == 0 || word == last {
                            table.pass(word);
                            continue;
                        }
                        let is_worth = table.is_worth_a_look(&words[index..]);
                        if !is_worth || !self.is_candidate(&words[index..]) {
                            continue;
                        }
                        last = word;
                        let Some(number) = self.node(word, 1) else { continue };
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
        let mut near = words.iter().take(NEAR).filter(|word| **word != 0);
        near.all(|word| self.shape.is_place(self.moment, *word, 1))
    }

    /// The number within its level of the node at an address; `None` if it is none.
    fn node(&mut self, at: u64, level: usize) -> Option<u64> {
        let (moment, shape) = (self.moment, self.shape);
        if level + 1 == shape.bits.len() {
            return self.leaf(at, level);
        }
        let mut number = None;
        for part in moment.present(&(at..at + shape.bytes(level))) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words).filter(|(_, word)| *word != 0) {
                    if !shape.is_place(moment, word, level + 1) {
                        return None;
                    }
                    let below = self.node(word, level + 1)?;
                    let index = (piece + 8 * offset - at) / 8;
                    let own = below >> shape.bits[level];
                    let is_other = number.is_some_and(|number| number != own);
                    if below & shape.mask(level) != index || is_other {
                        return None;
                    }
                    number = Some(own);
                }
            }
        }
        number
    }

    fn leaf(&mut self, at: u64, level: usize) -> Option<u64> {
        let (moment, shape) = (self.moment, self.shape);
        let (mut right, mut wrong, mut number) = (0_u32, 0_u32, None);
        for part in moment.present(&(at..at + shape.bytes(level))) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words).filter(|(_, word)| *word != 0) {
                    let place = (piece + 8 * offset - at) / 8;
                    if !place.is_multiple_of(shape.words) || (shape.is_cleared)(word) {
                        continue;
                    }
                    match self.leaf_of((shape.books)(word), place / shape.words, level) {
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
        number.filter(|_| right >= shape.least && wrong <= right / 8)
    }

    /// The number of the leaf that has books which begin at that page of the leaf, or reach over it.
    fn leaf_of(&self, books: u64, page: u64, level: usize) -> Option<u64> {
        let (first, count) = (self.shape.pages)(self.moment, books)?;
        if count == 0 || count >= 1 << 36 || first >= 1 << 36 {
            return None;
        }
        // The first page of that number from where they begin.
        let mask = self.shape.mask(level);
        let own = (first & !mask) | page;
        let own = if own < first { own + mask + 1 } else { own };
        (own < first + count).then_some(own >> self.shape.bits[level])
    }
}

/// A table of pointers that a search passes through.
#[derive(Debug, Default)]
struct Table {
    /// Zeros since the last word of it.
    zeros: usize,
    /// Other words of it.
    seen: usize,
}

impl Table {
    fn pass(&mut self, word: u64) {
        self.zeros = if word == 0 { self.zeros + 1 } else { 0 };
    }

    /// Whether the first of these words is one of those of its table that are looked at.
    fn is_worth_a_look(&mut self, words: &[u64]) -> bool {
        self.seen = if self.zeros >= GAP { 0 } else { self.seen + 1 };
        self.zeros = 0;
        let is_last = || words.iter().skip(1).take(GAP).all(|word| *word == 0);
        self.seen < FIRST || self.seen.is_multiple_of(ONE_OF) || is_last()
    }
}

/// Words of a range, in pieces.
fn pieces<'a>(
    moment: &'a Moment<'_>,
    range: &Range<u64>,
) -> impl Iterator<Item = (u64, Vec<u64>)> + 'a {
    let end = range.end;
    let starts = (range.start.next_multiple_of(8)..end).step_by(TOGETHER * 8);
    starts.filter_map(move |at| {
        let count = usize::try_from((end - at) / 8).unwrap_or(0).min(TOGETHER);
        Some((at, moment.words(at, count)?))
    })
}

/// The reading of a whole tree.
struct Reading<'a, 'm> {
    moment: &'a Moment<'m>,
    shape: &'static Shape,
    each: &'a mut dyn FnMut(u64, u64),
    left: u64,
}

impl Tree {
    /// Gives all books to `each`, with the address of every page that leads to them; ascending. `None` if
    /// nodes overlap each other, as only forged ones do.
    pub fn each(&self, moment: &Moment<'_>, each: &mut dyn FnMut(u64, u64)) -> Option<()> {
        let private = moment.regions().iter().filter(|region| region.writable);
        // Parts of pages at both ends of a node count as well.
        let left = private.map(|region| region.bytes() / PAGE * 2).sum();
        Reading { moment, shape: self.shape, each, left }.node(self.at, 0, 0)
    }
}

impl Reading<'_, '_> {
    fn node(&mut self, at: u64, level: usize, number: u64) -> Option<()> {
        let (moment, shape) = (self.moment, self.shape);
        if level + 1 == shape.bits.len() {
            return self.leaf(at, level, number);
        }
        for part in moment.present(&(at..at + shape.bytes(level))) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words).filter(|(_, word)| *word != 0) {
                    if shape.is_place(moment, word, level + 1) {
                        let index = (piece + 8 * offset - at) / 8;
                        let number = (number << shape.bits[level]) | index;
                        self.node(word, level + 1, number)?;
                    }
                }
            }
        }
        Some(())
    }

    fn leaf(&mut self, at: u64, level: usize, number: u64) -> Option<()> {
        let (moment, shape) = (self.moment, self.shape);
        for part in moment.present(&(at..at + shape.bytes(level))) {
            for (piece, words) in pieces(moment, &part) {
                self.left = self.left.checked_sub(1)?;
                for (offset, word) in (0..).zip(words) {
                    let place = (piece + 8 * offset - at) / 8;
                    let books = (shape.books)(word);
                    if books != 0 && place.is_multiple_of(shape.words) {
                        let page = (number << shape.bits[level]) | (place / shape.words);
                        (self.each)(page << shape.page, books);
                    }
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{RegionKind, synthetic::Synthetic};

    use super::*;

    /// Books are the number of the first page, and of all.
    static SHAPES: [Shape; 1] = [Shape {
        bits: &[9, 9, 9],
        words: 1,
        page: 12,
        aligned: 64,
        books: |word| word,
        is_cleared: |_| false,
        pages: |moment, books| Some((moment.word(books)?, moment.word(books + 8)?)),
        least: 2,
    }];

    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.region(0x40_0000..0x40_3000, RegionKind::File, "/program");
        memory.map(0x1000_0000..0x1010_0000);
        // Root, node and leaf for the pages from 3 << 18 | 5 << 9 on.
        memory.write(0x40_1018, 0x1000_1000);
        memory.write(0x1000_1028, 0x1000_4000);
        let first = 3 << 18 | 5 << 9 | 7;
        memory.write(0x1001_0000, first);
        memory.write(0x1001_0008, 2);
        memory.write(0x1001_0040, first + 2);
        memory.write(0x1001_0048, 1);
        memory.write(0x1000_4038, 0x1001_0000);
        memory.write(0x1000_4040, 0x1001_0000);
        memory.write(0x1000_4048, 0x1001_0040);
        memory
    }

    #[test]
    fn a_tree_is_found_by_what_its_leaves_lead_to() {
        let memory = memory();
        let moment = memory.moment();
        let trees = Search::all(&moment, &SHAPES);
        let [tree] = &trees[..] else { panic!("{trees:?}") };
        let page = (3 << 18 | 5 << 9 | 7) << 12;
        assert_eq!((tree.at, tree.image), (0x40_1000, 0));
        let mut entries = Vec::new();
        tree.each(&moment, &mut |page, books| entries.push((page, books))).unwrap();
        let [one, other] = [0x1001_0000, 0x1001_0040];
        assert_eq!(entries, [(page, one), (page + 0x1000, one), (page + 0x2000, other)]);
    }

    /// A large table of pointers, without gaps and with some, right before the first level and behind it.
    #[test]
    fn a_tree_beside_tables_of_pointers_is_found_with_few_looks() {
        const POINTERS: u64 = 1 << 15;
        for step in [8, 24] {
            let mut memory = memory();
            let low = 0x40_0000 - step * POINTERS;
            memory.region(low..0x40_0000, RegionKind::File, "/program");
            for number in 0..POINTERS {
                memory.write(low + step * number, 0x1000_8000 + 64 * (number % 64));
                memory.write(0x1000_8000 + 64 * (number % 64), 0x1000_8000 + number);
            }
            // Right behind the pointers: the first word of the first level.
            memory.write(0x40_0ff8, 0x1000_8000);
            let moment = memory.moment();
            let trees = Search::all(&moment, &SHAPES);
            assert_eq!(trees.iter().map(|tree| tree.at).collect::<Vec<_>>(), [0x40_1000]);
            let mut search = Search { moment: &moment, shape: &SHAPES[0], left: MOST_PAGES };
            let data: Vec<_> =
                moment.images().iter().flat_map(|image| image.data.clone()).collect();
            assert!(search.root(&data).is_some());
            assert!(MOST_PAGES - search.left < 1000, "{} looks", MOST_PAGES - search.left);
        }
    }

    #[test]
    fn a_leaf_whose_books_speak_of_other_pages_is_none() {
        let mut memory = memory();
        memory.write(0x1001_0000, 1);
        assert!(Search::all(&memory.moment(), &SHAPES).is_empty());
    }

    #[test]
    fn nodes_that_lead_to_each_other_end() {
        let mut memory = memory();
        let moment = memory.moment();
        let tree = Search::all(&moment, &SHAPES).remove(0);
        for at in (0x1000_1000..0x1000_2000).step_by(8) {
            memory.write(at, 0x1000_1000);
        }
        let mut count = 0;
        // No more words than there is memory, though each node leads to all.
        let end = tree.each(&memory.moment(), &mut |_, _| count += 1);
        assert!(count <= 1 << 18, "{end:?} after {count}");
    }
}
