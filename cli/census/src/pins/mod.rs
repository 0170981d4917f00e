//! Which blocks in use keep memory that is mostly free: an allocator can return a page, or a slab or span
//! that it cut into blocks of one size, only when no block in use is left there.
//!
//! What is free in such a unit counts for the blocks in use there, the same part for each: it is free for the
//! kernel when all of them are gone. Blocks of a group that lie nowhere but alone keep it by themselves.

mod sites;
mod unit;

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use serde::{Deserialize, Serialize};

use crate::{
    Block, Moment, Sink, State, Walker,
    types::{ClassId, ClassTally},
};
pub use sites::{Found, find};
use unit::{Ended, PAGE, Tally, Units};

/// Groups that are told; that are kept.
const ROWS: usize = 100;
const MOST_GROUPS: usize = 1 << 16;
/// Blocks of a unit that are kept until its end is known: of larger units the rest counts as in use, and
/// nothing for a group.
const MOST_BLOCKS: u64 = 1 << 16;
/// A byte has so many parts.
const PARTS: u128 = 1 << 10;

/// Blocks of one class and size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinRow {
    /// The class, if they say it.
    pub class: Option<String>,
    /// Usable bytes of each.
    pub size: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their part of what is free in the units that they lie in.
    pub pinned: u64,
    /// Bytes in memory of units in which no other blocks are in use.
    pub alone: u64,
    /// Blocks in units that are sparse, and those units' bytes in memory.
    pub sparse_blocks: u64,
    /// See `sparse_blocks`; a unit with blocks of several groups counts for each.
    pub sparse: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins {
    /// Bytes in memory of units with a block in use.
    pub resident: u64,
    /// Bytes of blocks in use there.
    pub live: u64,
    /// Bytes of pages that they would need side by side, each size apart.
    pub packed: u64,
    /// Bytes in memory of whole pages in such units that no block in use lies on.
    pub empty: u64,
    /// Bytes in memory of units of which blocks in use take less than a tenth.
    pub sparse: u64,
    /// Bytes of blocks in use there.
    pub sparse_live: u64,
    /// The groups that keep most.
    pub rows: Vec<PinRow>,
}

impl Pins {
    /// Bytes that are free and kept by blocks in use.
    pub fn free(&self) -> u64 {
        self.resident.saturating_sub(self.live)
    }
}

/// Looks at all blocks that these walkers tell.
pub fn look(moment: &Moment<'_>, walkers: &[&dyn Walker]) -> Pins {
    let mut tally = PinTally::new(moment);
    for walker in walkers {
        walker.walk(moment, &mut tally);
        tally.units.flush();
    }
    tally.finish()
}

type Group = (Option<ClassId>, u64);

#[derive(Clone, Copy, Default)]
struct Sum {
    blocks: u64,
    bytes: u64,
    /// In parts of a byte: fractions add up.
    pinned: u128,
    alone: u64,
    sparse_blocks: u64,
    sparse: u64,
}

/// The blocks of a unit, as far as they are kept: by group, how many.
#[derive(Default)]
struct Own {
    blocks: HashMap<u32, u64>,
    known: u64,
}

/// Sums by the number of a group.
#[derive(Default)]
struct Groups {
    numbers: HashMap<Group, u32>,
    sums: Vec<Sum>,
    pins: Pins,
}

impl Groups {
    /// The number of a group, or none if there are too many.
    fn number(&mut self, group: Group) -> Option<u32> {
        if let Some(number) = self.numbers.get(&group) {
            return Some(*number);
        }
        let number = u32::try_from(self.sums.len()).ok()?;
        if self.sums.len() >= MOST_GROUPS {
            return None;
        }
        self.sums.push(Sum::default());
        self.numbers.insert(group, number);
        Some(number)
    }
}

impl Tally for Groups {
    type Mark = Option<u32>;
    type Own = Own;

    fn add(&mut self, own: &mut Own, group: Option<u32>, bytes: u64, is_first: bool) {
        if let Some(group) = group.filter(|_| own.known < MOST_BLOCKS) {
            *own.blocks.entry(group).or_default() += 1;
            own.known += 1;
        }
        if let Some(sum) = group.and_then(|group| self.sums.get_mut(group as usize)) {
            sum.blocks += u64::from(is_first);
            sum.bytes += bytes;
        }
    }

    fn end(&mut self, unit: &Ended, Own { blocks, .. }: Own) {
        let Ended { resident, live, empty } = *unit;
        let pins = &mut self.pins;
        pins.resident += resident;
        pins.live += live;
        pins.empty += empty;
        if unit.is_sparse() {
            pins.sparse += resident;
            pins.sparse_live += live;
        }
        let all: u64 = blocks.values().sum();
        let free = u128::from(resident - live) * PARTS;
        let is_alone = blocks.len() == 1;
        for (group, count) in blocks {
            let Some(sum) = self.sums.get_mut(group as usize) else { continue };
            sum.pinned += free * u128::from(count) / u128::from(all.max(1));
            sum.alone += if is_alone { resident } else { 0 };
            if unit.is_sparse() {
                sum.sparse_blocks += count;
                sum.sparse += resident;
            }
        }
    }
}

struct PinTally<'a, 'm> {
    types: ClassTally<'a, 'm>,
    units: Units<Groups>,
}

impl<'a, 'm> PinTally<'a, 'm> {
    fn new(moment: &'a Moment<'m>) -> Self {
        let units = Units::new(moment, Groups::default());
        Self { types: ClassTally::new(moment), units }
    }

    fn finish(mut self) -> Pins {
        self.units.flush();
        let Self { types, units } = self;
        let Groups { numbers, sums, mut pins } = units.tally;
        let names = types.into_names();
        let name = |class: ClassId| names.get(usize::try_from(class.0).ok()?).cloned();
        let mut by_size: HashMap<u64, u64> = HashMap::new();
        let mut rows = Vec::new();
        for ((class, size), number) in numbers {
            let Some(sum) = sums.get(number as usize) else { continue };
            let bytes = by_size.entry(size).or_default();
            *bytes = bytes.saturating_add(sum.bytes);
            rows.push(PinRow {
                class: class.and_then(name),
                size,
                blocks: sum.blocks,
                bytes: sum.bytes,
                pinned: u64::try_from((sum.pinned + PARTS / 2) / PARTS).unwrap_or(u64::MAX),
                alone: sum.alone,
                sparse_blocks: sum.sparse_blocks,
                sparse: sum.sparse,
            });
        }
        pins.packed = by_size.values().map(|bytes| bytes.next_multiple_of(PAGE)).sum();
        rows.sort_by(|a, b| {
            (Reverse(a.pinned), a.size, &a.class).cmp(&(Reverse(b.pinned), b.size, &b.class))
        });
        rows.truncate(ROWS);
        pins.rows = rows;
        pins
    }
}

impl Sink for PinTally<'_, '_> {
    fn unit(&mut self, range: Range<u64>) {
        self.units.begin(range);
    }

    fn block(&mut self, block: Block) {
        if block.state != State::Used || block.size == 0 {
            return;
        }
        self.types.block(block);
        let group = self.units.tally.number((self.types.latest(), block.size));
        self.units.block(&block, group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;

    /// Eight pages that are there, and more that are not.
    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x10_0000);
        (0..8).for_each(|page| memory.write(HEAP + page * PAGE, 1));
        memory
    }

    fn tally(tell: impl FnOnce(&mut dyn FnMut(u64, u64), &Moment<'_>)) -> Pins {
        let memory = memory();
        let moment = memory.moment();
        let mut pins = PinTally::new(&moment);
        let mut block = |at, size| {
            let at = HEAP + at;
            if size == 0 {
                // Stands for a unit of four pages.
                return pins.unit(at..at + 4 * PAGE);
            }
            pins.block(Block { at, size, state: State::Used, arena: 0, class: 0 });
            let state = State::Free;
            pins.block(Block { at: at + size, size: 16, state, arena: 0, class: 0 });
        };
        tell(&mut block, &moment);
        pins.finish()
    }

    #[test]
    fn what_is_free_on_a_page_counts_for_its_blocks() {
        let pins = tally(|block, _| {
            block(0x100, 96);
            // Two on one page, of different sizes.
            block(0x1000, 96);
            block(0x1800, 160);
            // A block of two pages and a bit.
            block(0x2000, 0x2010);
            // It is not in memory.
            block(0x9000, 96);
        });
        let row = |size| pins.rows.iter().find(|row| row.size == size).unwrap();
        let (first, second) = (4096 - 96, (4096 - 96 - 160) / 2);
        let small = row(96);
        assert_eq!((small.blocks, small.pinned, small.alone), (3, first + second, 4096));
        assert_eq!((small.sparse_blocks, small.sparse), (2, 2 * 4096));
        assert_eq!((row(160).pinned, row(160).alone), (second, 0));
        let large = row(0x2010);
        assert_eq!((large.blocks, large.pinned, large.alone), (1, 4096 - 16, 3 * 4096));
        assert_eq!((pins.resident, pins.live), (5 * 4096, 96 * 2 + 160 + 0x2010));
        assert_eq!((pins.sparse, pins.sparse_live), (3 * 4096, 96 * 2 + 160 + 16));
        assert_eq!(pins.packed, 4096 + 4096 + 3 * 4096);
        assert_eq!(pins.empty, 0);
    }

    #[test]
    fn a_slab_is_kept_as_a_whole() {
        let pins = tally(|block, _| {
            block(0, 0);
            block(0x1010, 320);
            block(0x4000, 64);
        });
        let row = |size| pins.rows.iter().find(|row| row.size == size).unwrap();
        assert_eq!((row(320).pinned, row(320).alone), (4 * 4096 - 320, 4 * 4096));
        assert_eq!(row(64).alone, 4096);
        // Of the four pages of the slab three have no block in use.
        assert_eq!(pins.empty, 3 * 4096);
    }
}
