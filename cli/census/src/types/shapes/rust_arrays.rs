//! The elements of Rust's `Vec`: room, address and length. Any number, box and number can be these, so each place that
//! has them is looked at: all that lies at one place of blocks of one size, or at one distance in one block, is, or
//! nothing is.

use std::{collections::HashMap, ops::Range};

use super::forms::View;

/// A `Vec` that grows has room for four, or for eight bytes; of less room it says too little.
const LEAST_ROOM: u64 = 4;
/// The smallest block has room for anything.
const SMALLEST: u64 = 24;
/// What an allocator adds at most where it has no classes.
const STEP: u64 = 16;
/// A block that is larger has several values side by side.
const LARGE: u64 = 512;
/// A `Vec` itself has so many bytes.
const OWN: u64 = 24;
/// Larger numbers stand for something else.
const NICHE: u64 = 1 << 62;
/// Places that are kept, and blocks that have not been decided on.
const MOST: usize = 1 << 20;

/// What three words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Triple {
    /// Those of a `Vec`, whose elements are this block.
    Array(u32),
    /// They can be, and need not.
    Possible,
    /// There is a block, which these numbers do not fit.
    Wrong,
}

impl View<'_, '_> {
    /// The words at an address, if the second one leads to a block.
    pub fn rust_array(&self, at: u64) -> Option<Triple> {
        let from = self.moment.word(at.checked_add(8)?)?;
        if !self.blocks.span().contains(&from) {
            return None;
        }
        let [room, _, length] = self.words(at)?;
        if room >= NICHE {
            return None;
        }
        let (number, size) = self.block(from)?;
        if room == 0 || length > room || room > size {
            return Some(Triple::Wrong);
        }
        // One that grew has room for a power of two; one that was made of something has that, and no more.
        let is_usual = length == room || room.is_power_of_two() && length > 0;
        let element = size / room;
        let rest = size - element * room;
        let fits = rest < STEP || self.is_room_of(element * room, size);
        if !fits {
            return Some(Triple::Wrong);
        }
        let says_enough = is_usual && room >= LEAST_ROOM && size > SMALLEST;
        Some(if says_enough { Triple::Array(number) } else { Triple::Possible })
    }
}

/// Where triples lie: in blocks of this size, so far behind their beginning.
type Place = (u64, u64);

/// Where the triple of an array is, and its elements.
pub(super) type Head = (u64, u32);

/// Triples whose places were not decided on.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    /// By place, what would be elements; nothing where one triple is wrong.
    small: HashMap<Place, Option<Vec<Head>>>,
    kept: usize,
    /// Of the range that is looked at.
    found: Vec<Head>,
    wrong: Vec<u64>,
}

impl Arrays {
    /// A triple in the range that is looked at.
    pub fn add(&mut self, at: u64, triple: Triple) {
        match triple {
            Triple::Array(number) => self.found.push((at, number)),
            Triple::Possible => {}
            Triple::Wrong => self.wrong.push(at),
        }
    }

    /// The end of a range, which is a block or variables; answers what are elements for certain.
    pub fn end(&mut self, range: &Range<u64>) -> Vec<Head> {
        let (found, wrong) = (std::mem::take(&mut self.found), std::mem::take(&mut self.wrong));
        let size = range.end - range.start;
        if size <= LARGE {
            for at in wrong {
                let place = (size, at - range.start);
                if self.small.len() < MOST || self.small.contains_key(&place) {
                    let known = self.small.insert(place, None).flatten();
                    self.kept -= known.map_or(0, |known| known.len());
                }
            }
            for (at, number) in found {
                self.keep((size, at - range.start), (at, number));
            }
            return Vec::new();
        }
        let Some(&(first, _)) = found.first() else { return Vec::new() };
        let apart = found.iter().fold(0, |apart, (at, _)| greatest_common(apart, at - first));
        // A single one among much else says little, unless nothing is wrong.
        let is_beside = |at: u64| match apart {
            0 => at.abs_diff(first) < OWN,
            _ => at.abs_diff(first).is_multiple_of(apart),
        };
        let is_dense = apart != 0 && apart < OWN;
        if is_dense || wrong.into_iter().any(is_beside) {
            return Vec::new();
        }
        found
    }

    fn keep(&mut self, place: Place, head: Head) {
        if self.kept >= MOST || self.small.len() >= MOST {
            return;
        }
        if let Some(known) = self.small.entry(place).or_insert_with(|| Some(Vec::new())) {
            known.push(head);
            self.kept += 1;
        }
    }

    /// At the end of all: what else are elements.
    pub fn rest(&mut self) -> Vec<Head> {
        std::mem::take(&mut self.small).into_values().flatten().flatten().collect()
    }
}

fn greatest_common(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use heapattach_reach::{Block, Blocks};

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;
    const HEAD: u64 = 0x90_0000;

    fn triple(words: [u64; 3]) -> Option<Triple> {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x1000);
        memory.map(HEAD..HEAD + 0x1000);
        (HEAD..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
        let block = |(at, size)| Block { at, size, stack: 0 };
        let blocks = Blocks::new([(HEAP, 136), (HEAP + 0x400, 24)].map(block).into());
        let (moment, left) = (memory.moment(), Cell::new(1 << 20));
        View { moment: &moment, blocks: &blocks, has_classes: false, modules: 0..0, left }
            .rust_array(HEAD)
    }

    #[test]
    fn three_words_are_a_vec_or_may_be_one_or_are_none() {
        let is = |triple| Some(triple);
        assert_eq!(triple([16, HEAP, 9]), is(Triple::Array(0)));
        assert_eq!(triple([17, HEAP, 17]), is(Triple::Array(0)));
        for words in [[17, HEAP, 16], [16, HEAP, 0], [1, HEAP, 1], [8, HEAP + 0x400, 3]] {
            assert_eq!(triple(words), is(Triple::Possible), "{words:x?}");
        }
        for words in [[16, HEAP, 17], [0, HEAP, 0], [137, HEAP, 1], [100, HEAP, 100]] {
            assert_eq!(triple(words), is(Triple::Wrong), "{words:x?}");
        }
        for words in [[16, HEAP + 8, 9], [0, 8, 0], [1 << 63, HEAP, 5]] {
            assert_eq!(triple(words), None, "{words:x?}");
        }
    }

    #[test]
    fn a_place_has_vecs_or_none() {
        let numbers =
            |heads: Vec<Head>| heads.into_iter().map(|(_, number)| number).collect::<Vec<_>>();
        let mut arrays = Arrays::default();
        let mut block = |at: u64, triples: &[(u64, Triple)], size: u64| {
            triples.iter().for_each(|(offset, triple)| arrays.add(at + offset, *triple));
            numbers(arrays.end(&(at..at + size)))
        };
        // At 8 all are; at 40 one is none.
        for at in [0, 0x100, 0x200] {
            let triples = [(8, Triple::Array(7)), (40, Triple::Array(8))];
            assert!(block(at, &triples, 72).is_empty());
        }
        assert!(block(0x300, &[(8, Triple::Possible), (40, Triple::Wrong)], 72).is_empty());
        // Elements of 32 bytes, with wrong ones between them, and at one of their places.
        let many = [(32, Triple::Array(1)), (48, Triple::Wrong), (96, Triple::Array(2))];
        assert_eq!(block(0x1000, &many, 1024), [1, 2]);
        let wrong = [(32, Triple::Array(1)), (96, Triple::Array(2)), (160, Triple::Wrong)];
        assert!(block(0x2000, &wrong, 1024).is_empty());
        assert_eq!(block(0x3000, &[(32, Triple::Array(1)), (64, Triple::Wrong)], 1024), [1]);
        assert!(block(0x4000, &[(32, Triple::Array(1)), (48, Triple::Wrong)], 1024).is_empty());
        assert_eq!(numbers(arrays.rest()), [7, 7, 7]);
    }
}
