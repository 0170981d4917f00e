//! The live set: the recorded blocks that were allocated and not yet freed.
//!
//! It is fed in the order of the stamps, and it believes the order: a block allocated where one
//! lives says that the free of the other was missed. Memory is bounded, no matter what the target writes.

use heapattach_process::addr::RemoteAddr;

use crate::pending_frees::Announced;
use crate::{block::Block, table::Table, tick::Tick};

/// What did not add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Blocks that must have been freed unseen, since their address was allocated again.
    pub missed_frees: u64,
    /// Announced frees of an address that no live block has: blocks older than the session.
    pub frees_of_unknown: u64,
    /// Announced frees that name an allocation which is not live: its record was dropped, or it was
    /// beyond the limit.
    pub frees_of_lost: u64,
    /// Blocks that found the set full. They are in no sum of live blocks.
    pub blocks_beyond_limit: u64,
}

/// What came of a block that was allocated.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whether it is now in the set.
    pub kept: bool,
    /// The block that lived at its address until now, its free having been missed.
    pub missed: Option<Block>,
}

/// The live blocks.
#[derive(Debug)]
pub struct LiveSet {
    table: Table,
    announced: Announced,
    oddities: Oddities,
}

impl LiveSet {
    /// An empty set that never holds more than `limit` blocks.
    pub fn new(limit: usize) -> Self {
        let (announced, oddities) = Default::default();
        Self { table: Table::new(limit), announced, oddities }
    }

    /// The number of live blocks that were recorded.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// All of them, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.table.blocks()
    }

    /// Blocks that left the set by calls that may turn out not to have happened; the oldest first.
    pub fn announced(&self) -> impl Iterator<Item = &Block> {
        self.announced.blocks()
    }

    /// What did not add up so far.
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// A block was allocated.
    pub fn allocated(&mut self, block: Block) -> Arrival {
        let Ok(missed) = self.table.insert(block) else {
            count(&mut self.oddities.blocks_beyond_limit);
            return Arrival { kept: false, missed: None };
        };
        if missed.is_some() {
            count(&mut self.oddities.missed_frees);
        }
        Arrival { kept: true, missed }
    }

    /// A call is about to free the block at `at`, allocated with the stamp `name` if that is
    /// known. It may turn out not to have happened if it has a stamp. Returns the block that thereby
    /// left the set.
    pub fn freed(
        &mut self,
        stamp: Option<u64>,
        now: Tick,
        at: RemoteAddr,
        name: Option<u64>,
    ) -> Option<Block> {
        // A block that is older than the one meant must be gone; a younger one is another story.
        let Some(block) = self.table.remove_if(at, |b| name.is_none_or(|n| b.stamp() <= n)) else {
            count(match name {
                Some(_) => &mut self.oddities.frees_of_lost,
                None => &mut self.oddities.frees_of_unknown,
            });
            return None;
        };
        if name.is_none_or(|name| block.stamp() == name) {
            if let Some(stamp) = stamp {
                self.announced.remember(stamp, now, block);
            }
        } else {
            count(&mut self.oddities.missed_frees);
            count(&mut self.oddities.frees_of_lost);
        }
        Some(block)
    }

    /// The free with the stamp `announced` did not happen. Returns the block that is back, and when
    /// it seemed to go.
    pub fn restored(&mut self, announced: u64) -> Option<(Block, Tick)> {
        let (block, death) = self.announced.give_back(announced)?;
        // If the address was allocated again in between, an allocator did that: the free did happen.
        if self.table.get(block.at()).is_some() {
            return None;
        }
        if self.table.insert(block).is_err() {
            count(&mut self.oddities.blocks_beyond_limit);
            return None;
        }
        Some((block, death))
    }

    /// Fetches from memory what the next calls with these addresses will look at.
    pub fn warm(&self, addresses: impl Iterator<Item = RemoteAddr>) {
        self.table.warm(addresses);
    }
}

fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::{
        super::block::{Kind, RowId},
        *,
    };

    fn block(at: u64, stamp: u64) -> Block {
        Block::new(RemoteAddr::new(at), stamp, Tick(0), Kind::new(RowId(3), 24, 1))
    }

    fn at(number: u64) -> RemoteAddr {
        RemoteAddr::new(number)
    }

    #[test]
    fn a_freed_block_leaves_and_a_failed_realloc_brings_it_back() {
        let mut live = LiveSet::new(10);
        live.allocated(block(64, 1));
        assert_eq!(live.freed(Some(2), Tick(8), at(64), Some(1)), Some(block(64, 1)));
        assert_eq!(live.len(), 0);
        assert_eq!(live.restored(2), Some((block(64, 1), Tick(8))));
        assert_eq!(live.restored(2), None);
        assert_eq!(live.freed(Some(5), Tick(8), at(64), None), Some(block(64, 1)));
        assert_eq!(live.oddities(), Oddities::default());
    }

    #[test]
    fn what_cannot_fail_is_not_remembered() {
        let mut live = LiveSet::new(10);
        live.allocated(block(64, 1));
        assert_eq!(live.freed(None, Tick(8), at(64), None), Some(block(64, 1)));
        assert_eq!((live.restored(0), live.restored(2)), (None, None));
    }

    #[test]
    fn an_address_handed_out_twice_proves_a_missed_free() {
        let mut live = LiveSet::new(10);
        live.allocated(block(64, 1));
        let arrival = live.allocated(block(64, 2));
        assert_eq!(arrival, Arrival { kept: true, missed: Some(block(64, 1)) });
        assert_eq!((live.len(), live.oddities().missed_frees), (1, 1));
    }

    #[test]
    fn the_free_of_a_lost_younger_block_proves_the_older_one_dead() {
        let mut live = LiveSet::new(10);
        live.allocated(block(64, 1));
        assert_eq!(live.freed(Some(9), Tick(8), at(64), Some(5)), Some(block(64, 1)));
        let odd = live.oddities();
        assert_eq!((odd.missed_frees, odd.frees_of_lost), (1, 1));
        assert_eq!(live.restored(9), None, "what was freed is not what we dropped");
    }

    #[test]
    fn the_free_of_a_lost_older_block_leaves_the_younger_one_alone() {
        let mut live = LiveSet::new(10);
        live.allocated(block(64, 7));
        assert_eq!(live.freed(Some(9), Tick(8), at(64), Some(5)), None);
        assert_eq!((live.len(), live.oddities().frees_of_lost), (1, 1));
    }

    #[test]
    fn frees_of_older_blocks_are_counted() {
        let mut live = LiveSet::new(10);
        assert_eq!(live.freed(Some(1), Tick(8), at(64), None), None);
        assert_eq!(live.oddities().frees_of_unknown, 1);
    }

    #[test]
    fn a_full_set_counts_what_it_turns_away() {
        let mut live = LiveSet::new(2);
        for stamp in 0..5 {
            live.allocated(block(64 * stamp, stamp));
        }
        assert_eq!((live.len(), live.oddities().blocks_beyond_limit), (2, 3));
        assert!(live.allocated(block(0, 9)).kept, "another in the place of one is no more room");
        live.freed(Some(10), Tick(8), at(0), None);
        assert!(live.allocated(block(128, 11)).kept);
        assert_eq!(live.restored(10), None);
        assert_eq!((live.len(), live.oddities().blocks_beyond_limit), (2, 4));
    }
}
