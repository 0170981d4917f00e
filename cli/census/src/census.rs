//! All walkers on one moment.

use std::ops::Range;

use crate::{
    Answer, Moment, Walk, Walker,
    stats::{Amount, Fill, Kinds, Sizes, Tally},
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
}

impl Census {
    /// Asks each of these walkers.
    pub fn take(moment: &Moment<'_>, walkers: &[&dyn Walker]) -> Self {
        let mut tally = Tally::new(moment);
        let mut owned = vec![Amount::default(); moment.regions().len()];
        let mut allocators = Vec::new();
        for walker in walkers {
            let name = walker.name();
            match walker.walk(moment, &mut tally) {
                Answer::Absent => {}
                Answer::Refused(why) => {
                    allocators.push(Allocator { name, walk: Err(why), kinds: Vec::new() });
                }
                Answer::Walked(walk) => {
                    let kinds = tally.finish_walk(&walk);
                    let memory = walk.arenas.iter();
                    let memory = memory.flat_map(|arena| arena.memory.iter().chain(&arena.books));
                    memory.for_each(|range| own(moment, &mut tally, range, &mut owned));
                    allocators.push(Allocator { name, walk: Ok(walk), kinds });
                }
            }
        }
        tally.finish();
        Self { allocators, sizes: tally.sizes, fill: tally.fill, owned }
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
