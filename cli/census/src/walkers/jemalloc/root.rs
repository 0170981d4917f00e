//! The tree that leads from every page to its extent.
//!
//! How many levels it has depends on the widest address of the machine that jemalloc was built on, so both
//! shapes are looked for.

use crate::{
    Moment,
    walkers::page_tree::{Search, Shape, Tree},
};

const PAGE: u64 = 4096;

static SHAPES: [Shape; 2] = [
    // For 48 bits: a word of a leaf has flags beside the address.
    Shape { bits: &[18, 18], words: 1, page: 12, aligned: 64, books, is_cleared, pages, least: 4 },
    // For 57 bits: the flags are in a word of their own. One extent alone proves a leaf of a tree of three
    // levels.
    Shape {
        bits: &[15, 15, 15],
        words: 2,
        page: 12,
        aligned: 64,
        books,
        is_cleared,
        pages,
        least: 1,
    },
];

/// All of them: a process can have several jemallocs, but a module has one at most.
pub fn roots(moment: &Moment<'_>) -> Vec<Tree> {
    Search::all(moment, &SHAPES)
}

fn pages(moment: &Moment<'_>, books: u64) -> Option<(u64, u64)> {
    let at = moment.word(books.checked_add(8)?)?;
    let size = moment.word(books.checked_add(16)?)?;
    Some((at / PAGE, size / PAGE))
}

/// The address of an extent's books in a word of a leaf.
fn books(word: u64) -> u64 {
    (word << 16 >> 16) & !127
}

/// Whether a word of a leaf is that of a page without an extent any more: nothing but the class of none.
fn is_cleared(word: u64) -> bool {
    books(word) == 0 && matches!(word >> 48, 0xe8 | 0xeb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_a_word_are_told_from_its_flags() {
        assert_eq!(books(0x0003_7f12_3456_7881), 0x7f12_3456_7880);
        assert_eq!(books(0x00e8_0000_0000_0001), 0);
        assert!(is_cleared(0x00e8_0000_0000_0001) && !is_cleared(1));
    }

    #[test]
    fn each_shape_divides_all_pages() {
        let bits: Vec<u32> = SHAPES.iter().map(|shape| shape.bits.iter().sum()).collect();
        assert_eq!(bits, [48 - 12, 57 - 12]);
    }
}
