//! All walkers on one moment.

use std::ops::Range;

use crate::{
    Answer, Block, Moment, Sink, Walk, Walker,
    stats::{Amount, Fill, Kinds, Sizes, Tally},
    types::{ClassRow, ClassTally},
};

/// An allocator that is there.
#[derive(Clone, Debug)]
pub struct Allocator {
    /// Its name.
    pub name: &'static str,
    /// The walk, or why there is none.
    pub walk: Result<Walk, String>,
    /// What its arenas have, in their order.
    pub kinds: Vec<Kinds>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// The allocators, but for those that are not there.
    pub allocators: Vec<Allocator>,
    /// Blocks by size.
    pub sizes: Sizes,
    /// Pages of allocators, by how full they are.
    pub fill: Fill,
    /// By the number of a region: what allocators have of it.
    pub owned: Vec<Amount>,
    /// Blocks in use by class, those of most bytes first.
    pub classes: Vec<ClassRow>,
}

impl Census {
    /// Asks each of these walkers.
    pub fn take(moment: &Moment<'_>, walkers: &[&dyn Walker]) -> Self {
        let mut both = Both { tally: Tally::new(moment), classes: ClassTally::new(moment) };
        let mut owned = vec![Amount::default(); moment.regions().len()];
        let mut allocators = Vec::new();
        for walker in walkers {
            let name = walker.name();
            match walker.walk(moment, &mut both) {
                Answer::Absent => {}
                Answer::Refused(why) => {
                    allocators.push(Allocator { name, walk: Err(why), kinds: Vec::new() });
                }
                Answer::Walked(walk) => {
                    let kinds = both.tally.finish_walk(&walk);
                    let memory = walk.arenas.iter();
                    let memory = memory.flat_map(|arena| arena.memory.iter().chain(&arena.books));
                    memory.for_each(|range| own(moment, &mut both.tally, range, &mut owned));
                    allocators.push(Allocator { name, walk: Ok(walk), kinds });
                }
            }
        }
        let Both { mut tally, classes } = both;
        tally.finish();
        let classes = classes.finish();
        Self { allocators, sizes: tally.sizes, fill: tally.fill, owned, classes }
    }

    /// The walks that were finished.
    pub fn walks(&self) -> impl Iterator<Item = &Walk> {
        self.allocators.iter().filter_map(|allocator| allocator.walk.as_ref().ok())
    }

    /// What all arenas have.
    pub fn kinds(&self) -> Kinds {
        let mut sum = Kinds::default();
        self.allocators.iter().flat_map(|one| &one.kinds).for_each(|kinds| sum.add(kinds));
        sum
    }
}

/// Sums, and classes.
struct Both<'a, 'm> {
    tally: Tally,
    classes: ClassTally<'a, 'm>,
}

impl Sink for Both<'_, '_> {
    #[inline]
    fn block(&mut self, block: Block) {
        self.tally.block(block);
        self.classes.block(block);
    }
}

/// Adds a range of an arena to the regions that it lies in.
fn own(moment: &Moment<'_>, tally: &mut Tally, range: &Range<u64>, owned: &mut [Amount]) {
    let regions = moment.regions();
    let first = regions.partition_point(|region| region.range.end <= range.start);
    for (region, owned) in regions.iter().zip(owned).skip(first) {
        if region.range.start >= range.end {
            break;
        }
        let part = region.range.start.max(range.start)..region.range.end.min(range.end);
        owned.add(tally.resident().overlap(&part));
    }
}
