//! Spans: runs of pages that tcmalloc has, and what each is used for.

use crate::{
    Moment,
    walkers::page_tree::{Search, Shape, Tree},
};

/// The bits of an address within a page of tcmalloc's.
pub const PAGE_BITS: u32 = 13;

static SHAPES: [Shape; 1] = [Shape {
    bits: &[17, 18],
    words: 1,
    page: PAGE_BITS,
    aligned: 16,
    books: |word| word,
    is_cleared: |_| false,
    pages: |moment, books| Some((moment.word(books)?, moment.word(books.checked_add(8)?)?)),
    least: 4,
}];

/// What a span is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// One block.
    Block,
    /// Blocks of a size class.
    Class(u32),
    /// Free.
    Free,
    /// Free; its pages were given back to the kernel.
    Returned,
}

/// A span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub at: u64,
    /// Its bytes.
    pub size: u64,
    /// What it is used for.
    pub used: Use,
    /// Of a class: the first free block that is in no cache.
    pub objects: u64,
    /// Of a class: blocks in use or in a cache.
    pub outside: u64,
    /// Of a class: whether its central list has it. One that is being cut into blocks, or given back, is in
    /// none.
    pub is_listed: bool,
}

/// The trees of all modules.
pub fn trees(moment: &Moment<'_>) -> Vec<Tree> {
    Search::all(moment, &SHAPES)
}

impl Span {
    /// Out of the books at an address; `None` if these are none.
    pub fn read(moment: &Moment<'_>, books: u64) -> Option<Self> {
        let word = |index: u64| moment.word(books.checked_add(8 * index)?);
        let (first, count, bits) = (word(0)?, word(1)?, word(5)?);
        let is_sound = first > 0 && count > 0 && first < 1 << 35 && count < 1 << 35;
        let class = u32::try_from(bits >> 16 & 0xff).unwrap_or(0);
        let used = match (bits >> 24 & 3, class) {
            (0, 0) => Use::Block,
            (0, class) => Use::Class(class),
            (1, _) => Use::Free,
            _ => Use::Returned,
        };
        is_sound.then_some(())?;
        let (at, size) = (first << PAGE_BITS, count << PAGE_BITS);
        let is_listed = word(2)? != 0;
        Some(Self { at, size, used, objects: word(4)?, outside: bits & 0xffff, is_listed })
    }
}

/// All spans, ascending; none overlaps another. And how many words led to none.
pub fn spans(moment: &Moment<'_>, tree: &Tree) -> Option<(Vec<Span>, u64)> {
    let (mut spans, mut end, mut broken) = (Vec::<Span>::new(), 0, 0);
    tree.each(moment, &mut |page, books| {
        // Within a span may be words that lead to former ones.
        if page < end {
            return;
        }
        match Span::read(moment, books).filter(|span| span.at == page) {
            Some(span) => {
                end = span.at + span.size;
                spans.push(span);
            }
            None => broken += 1,
        }
    })?;
    Some((spans, broken))
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    #[test]
    fn a_span_is_told_by_its_bits() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x11000);
        let words = [0x3f800, 2, 0, 0, 0x7f00_0008, 30 | 5 << 16];
        (0..).zip(words).for_each(|(index, word)| memory.write(0x10000 + 8 * index, word));
        let span = Span::read(&memory.moment(), 0x10000).unwrap();
        let expected = Span {
            at: 0x7f00_0000,
            size: 16384,
            used: Use::Class(5),
            objects: 0x7f00_0008,
            outside: 30,
            is_listed: false,
        };
        assert_eq!(span, expected);
        memory.write(0x10008, 0);
        assert_eq!(Span::read(&memory.moment(), 0x10000), None);
    }
}
