//! The last blocks that were allocated, in their order: many are freed in the same order, or
//! in the opposite one.

use std::collections::VecDeque;

/// So many, as a power of two.
const BITS: u32 = 17;
const MASK: usize = (1 << BITS) - 1;
/// What is remembered of numbers that no block has had yet.
const GONE: Known = Known { row: 0, size: 0, birth: 0, is_gone: true };
/// Blocks that are gone already are looked past, but not more than so many.
const GONE_AT_ONCE: u32 = 16;
/// Blocks of one time that are looked at for one of them.
const SEARCHED: u32 = 64;

/// A block, as it is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The row of the block.
    pub row: u32,
    /// The block's size.
    pub size: u32,
    /// When it was allocated.
    pub birth: u32,
    is_gone: bool,
}

/// The blocks, by their numbers.
#[derive(Debug, Default)]
pub struct Recent {
    /// Memory is taken as it is needed: most processes of a family allocate few blocks.
    blocks: Vec<Known>,
    /// Every time at which some were allocated, and the number of the first of these: there are
    /// few, where there are many blocks.
    times: VecDeque<(u32, u32)>,
    next: u32,
    /// The last that was freed.
    freed: u32,
}

/// Where to look from the last one that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What was allocated after it.
    Younger = 0,
    /// What was allocated before it.
    Older = 1,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Younger, Self::Older];
}

impl Recent {
    /// Another one; answers its number.
    pub fn put(&mut self, row: u32, size: u32, birth: u32) -> u32 {
        let number = self.next;
        let block = Known { row, size, birth, is_gone: false };
        match self.blocks.get_mut(number as usize & MASK) {
            Some(oldest) => *oldest = block,
            None => self.blocks.push(block),
        }
        self.next = number.wrapping_add(1);
        if self.times.back().is_none_or(|&(last, _)| last != birth) {
            self.times.push_back((birth, number));
        }
        // The oldest may have been allocated before the first that is still known.
        while self.times.get(1).is_some_and(|&(_, second)| self.is_beyond(second)) {
            self.times.pop_front();
        }
        number
    }

    /// Whether all blocks before this number are forgotten.
    fn is_beyond(&self, number: u32) -> bool {
        self.next.wrapping_sub(number) >= 1 << BITS
    }

    /// Takes one away.
    pub fn free(&mut self, number: u32) {
        if self.get(number).is_some() {
            if let Some(block) = self.blocks.get_mut(number as usize & MASK) {
                block.is_gone = true;
            }
            self.freed = number;
        }
    }

    /// The next to the last one that was freed, on one side.
    pub fn neighbour(&self, side: Side) -> Option<(u32, Known)> {
        let step = if side == Side::Younger { 1 } else { u32::MAX };
        let mut number = self.freed;
        for _ in 0..GONE_AT_ONCE {
            number = number.wrapping_add(step);
            let block = self.get(number)?;
            if !block.is_gone {
                return Some((number, block));
            }
        }
        None
    }

    /// The number of such a block.
    pub fn find(&self, row: u32, size: u32, birth: u32) -> Option<u32> {
        let wanted = Known { row, size, birth, is_gone: false };
        let mut neighbours = Side::BOTH.into_iter().filter_map(|side| self.neighbour(side));
        if let Some((number, _)) = neighbours.find(|(_, block)| *block == wanted) {
            return Some(number);
        }
        let held = self.next.min(1 << BITS);
        let first = self.next.wrapping_sub(held);
        let now = self.get(self.next.wrapping_sub(1))?.birth;
        let age = |birth: u32| now.wrapping_sub(birth);
        let time = self.times.partition_point(|&(time, _)| age(time) > age(birth));
        let &(_, from) = self.times.get(time)?;
        // Of the oldest time some may be forgotten.
        let low = from.wrapping_sub(first).cast_signed().max(0).cast_unsigned();
        let likely = (low..held.min(low.saturating_add(SEARCHED))).map(|at| first.wrapping_add(at));
        let same_time = likely.map_while(|number| {
            self.get(number).filter(|block| block.birth == birth).map(|block| (number, block))
        });
        same_time.into_iter().find(|(_, block)| *block == wanted).map(|(number, _)| number)
    }

    fn get(&self, number: u32) -> Option<Known> {
        let age = self.next.wrapping_sub(number);
        let known = || self.blocks.get(number as usize & MASK).copied();
        (1..=1 << BITS).contains(&age).then(|| known().unwrap_or(GONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that a look at all blocks finds: of this time, among the first of it.
    fn by_all(recent: &Recent, wanted: Known) -> Option<u32> {
        let held = recent.next.min(1 << BITS);
        let all = (0..held).map(|at| recent.next.wrapping_sub(held).wrapping_add(at));
        let of_time = all.filter(|&number| recent.get(number).unwrap().birth == wanted.birth);
        of_time.take(SEARCHED as usize).find(|&number| recent.get(number) == Some(wanted))
    }

    #[test]
    fn a_block_is_found_by_its_time_also_when_others_are_forgotten() {
        let mut recent = Recent::default();
        // So many that half of them are forgotten, with times that some have and some have not.
        for at in 0..1_u32 << (BITS + 1) {
            recent.put(at % 7, 16, at / 1000 * 3);
        }
        let last = ((1 << (BITS + 1)) - 1) / 1000 * 3;
        let mut found = 0;
        for birth in (0..=last + 3).rev().take(600) {
            let wanted = Known { row: 5, size: 16, birth, is_gone: false };
            let number = recent.find(5, 16, birth);
            assert_eq!(number, by_all(&recent, wanted), "{birth}");
            found += usize::from(number.is_some());
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn what_is_given_back_in_order_has_a_neighbour_next() {
        let mut recent = Recent::default();
        let numbers: Vec<_> = (0..10).map(|at| recent.put(at, 16, at / 4)).collect();
        recent.free(recent.find(4, 16, 1).unwrap());
        let row = |recent: &Recent, side| recent.neighbour(side).map(|(_, block)| block.row);
        assert_eq!(Side::BOTH.map(|side| row(&recent, side)), [Some(5), Some(3)]);
        recent.free(numbers[5]);
        assert_eq!(Side::BOTH.map(|side| row(&recent, side)), [Some(6), Some(3)]);
        assert_eq!(recent.find(4, 16, 1), None, "it is gone");
        assert_eq!(recent.find(9, 16, 1), None, "that one is of another time");
    }
}
