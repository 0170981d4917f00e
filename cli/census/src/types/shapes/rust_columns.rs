//! What the elements of one array of Rust say of one another: they are of one type, so what lies at one place of each of
//! them is, too.
//!
//! ```text
//! some are pointers to counted values for certain -> so are those to values that have a single pointer
//! some are `Vec`s for certain, of elements of one size -> so are those with room for too few to say so themselves
//! ```

use std::collections::BTreeMap;

use super::{
    forms::{Shape, View},
    rust_arrays::{Head, Triple},
};

/// So many say what all others of a column are.
const LEAST: usize = 4;
/// The words of a `Vec`.
const OWN: u64 = 24;
/// Elements are larger: they are not looked at.
const LARGEST: u64 = 4096;
/// What an allocator adds at most where it has no classes; a large block may be a mapping.
const MOST_ADDED: u64 = 32;
const LARGE: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// Blocks that begin with two counts, which are those of the pointers that lead there; ascending.
pub(super) struct Columns<'a> {
    /// Several pointers each.
    pub several: &'a [u32],
    /// One each.
    pub single: &'a [u32],
}

/// An array whose elements are of a known size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Array {
    at: u64,
    /// Bytes of an element.
    size: u64,
    /// Elements.
    length: u64,
}

impl Columns<'_> {
    /// What else is known of blocks that the elements of these arrays lead to.
    pub fn look(
        &self,
        view: &View<'_, '_>,
        heads: Vec<Head>,
        is_array: &dyn Fn(u32) -> bool,
    ) -> Vec<(u32, Shape)> {
        let mut arrays: BTreeMap<u32, Option<Array>> = BTreeMap::new();
        for (at, number) in heads.into_iter().filter(|(_, number)| is_array(*number)) {
            let array = Array::of(view, at, number);
            // Two heads of one block that do not say the same are no heads.
            arrays
                .entry(number)
                .and_modify(|known| *known = known.filter(|_| *known == array))
                .or_insert(array);
        }
        let mut found = Vec::new();
        for array in arrays.into_values().flatten() {
            for offset in (0..array.size).step_by(8) {
                let column = array.column(offset);
                if let Some(values) = self.counted(view, column.clone()) {
                    found.extend(values.into_iter().map(|number| (number, Shape::RustCounted)));
                } else if offset + OWN <= array.size
                    && let Some(vecs) = vecs(view, column)
                {
                    found.extend(vecs.into_iter().map(|number| (number, Shape::RustArray)));
                }
            }
        }
        found
    }

    /// Values with a single pointer, where all words of a column are pointers to values with counts.
    fn counted(&self, view: &View<'_, '_>, column: impl Iterator<Item = u64>) -> Option<Vec<u32>> {
        let (mut certain, mut others) = (0, Vec::new());
        for at in column {
            view.step()?;
            let word = view.moment.word(at)?;
            // None of them.
            if word == 0 {
                continue;
            }
            let (number, _) = view.block(word)?;
            if self.several.binary_search(&number).is_ok() {
                certain += 1;
            } else {
                self.single.binary_search(&number).ok()?;
                others.push(number);
            }
        }
        (certain >= LEAST).then_some(others)
    }
}

impl Array {
    fn of(view: &View<'_, '_>, at: u64, number: u32) -> Option<Self> {
        let [room, from, length] = view.words(at)?;
        let block = view.blocks.get(number);
        if from != block.at || room == 0 || length > room {
            return None;
        }
        let fits =
            |size: u64| size.checked_mul(room).is_some_and(|own| view.is_room_of(own, block.size));
        let largest = (block.size / room) & !7;
        // Of two sizes that fit it is not known which one it is.
        let is_it = (8..=LARGEST).contains(&largest)
            && fits(largest)
            && (largest == 8 || !fits(largest - 8));
        is_it.then_some(Self { at: block.at, size: largest, length })
    }

    /// Where the words of its elements are that lie at one place.
    fn column(self, offset: u64) -> impl Iterator<Item = u64> + Clone {
        let Self { at, size, length } = self;
        (0..length)
            .filter_map(move |index| at.checked_add(index.checked_mul(size)?)?.checked_add(offset))
    }
}

/// The elements of all `Vec`s of a column, where it has these: enough that are ones for certain, which agree on the size of
/// their elements, and none that is not.
fn vecs(view: &View<'_, '_>, column: impl Iterator<Item = u64>) -> Option<Vec<u32>> {
    let (mut least, mut most, mut certain) = (1, u64::MAX, 0);
    let mut others = Vec::new();
    for at in column {
        view.steps(3)?;
        match view.rust_array(at) {
            Some(Triple::Wrong) => return None,
            Some(Triple::Array(number)) => {
                let (room, size) = (view.moment.word(at)?, view.blocks.get(number).size);
                let added = match size >= LARGE {
                    true => PAGE,
                    false if view.has_classes => MOST_ADDED.max(size / 4),
                    false => MOST_ADDED,
                };
                least = least.max(size.saturating_sub(added) / room + 1);
                most = most.min(size / room);
                certain += 1;
            }
            Some(Triple::Possible) => others.push(at),
            // An empty one leads to no block.
            None => {
                let [room, from, length] = view.words(at)?;
                let is_empty = room == 0 && length == 0 && from.is_power_of_two() && from <= PAGE;
                if !is_empty {
                    return None;
                }
            }
        }
    }
    let element = (certain >= LEAST && least == most).then_some(least)?;
    let fitting = others.into_iter().map(|at| {
        let [room, from, _] = view.words(at)?;
        let (number, size) = view.block(from)?;
        view.is_room_of(room.checked_mul(element)?, size).then_some(number)
    });
    // One that does not fit is of another type: then all may be.
    fitting.collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use heapattach_reach::{Block, Blocks};

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;
    const HEAD: u64 = 0x90_0000;
    const ARRAY: u64 = 0x88_0000;

    /// Blocks of these sizes, 0x400 bytes apart, behind an array of so many bytes with these words.
    fn look(
        (array, words): (u64, &[u64]),
        [room, length]: [u64; 2],
        sizes: &[u64],
        counted: [&[u32]; 2],
    ) -> Vec<(u32, Shape)> {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAD + 0x1000);
        (ARRAY..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, *word));
        (HEAD..)
            .step_by(8)
            .zip([room, ARRAY, length])
            .for_each(|(at, word)| memory.write(at, word));
        let mut blocks: Vec<Block> = (0..)
            .zip(sizes)
            .map(|(number, size)| Block { at: at(number), size: *size, stack: 0 })
            .collect();
        blocks.push(Block { at: ARRAY, size: array, stack: 0 });
        let number = u32::try_from(sizes.len()).unwrap();
        let blocks = Blocks::new(blocks);
        let (moment, left) = (memory.moment(), Cell::new(1 << 20));
        let view =
            View { moment: &moment, blocks: &blocks, has_classes: false, modules: 0..0, left };
        let [several, single] = counted;
        Columns { several, single }.look(&view, vec![(HEAD, number)], &|_| true)
    }

    fn at(number: u64) -> u64 {
        HEAP + number * 0x400
    }

    #[test]
    fn values_with_one_pointer_are_counted_beside_others_that_are_for_certain() {
        let words: Vec<u64> = (0..7).map(at).chain([0]).collect();
        let look = |several: &[u32], single: &[u32], words: &[u64]| {
            look((72, words), [8, 8], &[40; 7], [several, single])
        };
        let expected = [4, 5, 6].map(|number| (number, Shape::RustCounted));
        assert_eq!(look(&[0, 1, 2, 3], &[4, 5, 6], &words), expected);
        assert!(look(&[0, 1, 2], &[3, 4, 5, 6], &words).is_empty(), "too few are");
        assert!(look(&[0, 1, 2, 3], &[4, 5], &words).is_empty(), "one has no counts");
        let numbers: Vec<u64> = words.iter().map(|word| word | 8).collect();
        assert!(look(&[0, 1, 2, 3], &[4, 5, 6], &numbers).is_empty(), "no pointers");
    }

    #[test]
    fn small_arrays_are_known_by_larger_ones_at_the_same_place() {
        // Of eight bytes: 4, 5, 40 and 8 of them, then 1, none, and 2 of 3.
        let sizes = [40, 40, 328, 72, 24, 24];
        let vecs = |small: [u64; 3]| -> Vec<u64> {
            let mut words = Vec::new();
            for (number, room) in [(0, 4), (1, 5), (2, 40), (3, 8), (4, 1)] {
                words.extend([room, at(number), room]);
            }
            words.extend([0, 8, 0]);
            words.extend([small[0], at(5), small[1]]);
            words.push(small[2]);
            words
        };
        let look = |small| look((184, &vecs(small)), [7, 7], &sizes, [&[], &[]]);
        let expected = [4, 5].map(|number| (number, Shape::RustArray));
        assert_eq!(look([3, 2, 0]), expected);
        // It has not the size of so many; more are used than there is room for.
        assert!(look([1000, 2, 0]).is_empty() && look([20, 2, 0]).is_empty());
        assert!(look([2, 3, 0]).is_empty());
    }
}
