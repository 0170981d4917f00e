//! Values of Rust's `Rc` and `Arc`: two counts, which are those of the pointers that lead there, of which there are several.

use std::collections::HashMap;

use super::forms::View;

/// Larger counts are none.
const MOST_POINTERS: u64 = 1 << 31;
/// Blocks that are kept.
const MOST: usize = 1 << 20;
/// One that has a single pointer is not told from a box of two numbers by itself.
const LEAST: u64 = 2;

/// Pointers to what begins with two counts.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pointers: HashMap<u32, u64>,
}

impl View<'_, '_> {
    /// How many pointers lead to a block, as it says itself: strong ones, and weak ones but for that of all strong ones.
    fn told_pointers(&self, number: u32) -> Option<u64> {
        let [strong, weak] = self.words(self.blocks.get(number).at)?;
        let are_counts = (1..MOST_POINTERS).contains(&strong) && (1..MOST_POINTERS).contains(&weak);
        are_counts.then(|| strong + weak - 1)
    }
}

impl Counted {
    /// A word that leads to the beginning of a block.
    pub fn add(&mut self, view: &View<'_, '_>, at: u64) {
        let Some((number, size)) = view.block(at) else { return };
        if size < 16 {
            return;
        }
        if let Some(known) = self.pointers.get_mut(&number) {
            *known += 1;
        } else if self.pointers.len() < MOST && view.told_pointers(number).is_some() {
            self.pointers.insert(number, 1);
        }
    }

    /// Blocks to which as many pointers lead as they say: those of several, which are values for certain, and those of
    /// one, which may be; both ascend.
    pub fn all(&self, view: &View<'_, '_>) -> [Vec<u32>; 2] {
        let mut all = [Vec::new(), Vec::new()];
        for (number, found) in &self.pointers {
            if view.told_pointers(*number) == Some(*found) {
                all[usize::from(*found < LEAST)].push(*number);
            }
        }
        all.iter_mut().for_each(|all| all.sort_unstable());
        all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use heapattach_reach::{Block, Blocks};

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;

    #[test]
    fn as_many_pointers_are_found_as_are_counted() {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x1000);
        // Counts, and how many pointers there are.
        let all = [([2, 1], 2), ([1, 3], 3), ([2, 1], 3), ([3, 1], 2), ([1, 1], 1), ([0, 2], 1)];
        let at = |number: u64| HEAP + number * 0x40;
        for (number, (counts, _)) in (0..).zip(all) {
            (at(number)..).step_by(8).zip(counts).for_each(|(at, word)| memory.write(at, word));
        }
        let block = |number| Block { at: at(number), size: 40, stack: 0 };
        let blocks = Blocks::new((0..6).map(block).collect());
        let (moment, left) = (memory.moment(), Cell::new(1 << 20));
        let view =
            View { moment: &moment, blocks: &blocks, has_classes: false, modules: 0..0, left };
        let mut counted = Counted::default();
        for (number, (_, pointers)) in (0..).zip(all) {
            (0..pointers).for_each(|_| counted.add(&view, at(number)));
            // Into its middle: no pointer of a counter.
            counted.add(&view, at(number) + 16);
        }
        assert_eq!(counted.all(&view), [vec![0, 1], vec![4]]);
    }
}
