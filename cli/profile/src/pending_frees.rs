//! The last frees, in case one of them turns out not to have happened: a `realloc` announces that
//! the old block goes before it knows whether it will.

use std::collections::VecDeque;

use crate::{block::Block, tick::Tick};

/// As many frees as other threads make while one thread is off the processor in a failing call.
pub const REMEMBERED: usize = 65_536;

/// What the last frees took, by their stamps.
#[derive(Debug, Default)]
pub struct Announced {
    /// Ascending. Apart from the blocks, whose alignment would double the room for a stamp.
    stamps: VecDeque<u64>,
    deaths: VecDeque<Tick>,
    /// `None` is settled: its block was freed.
    blocks: VecDeque<Option<Block>>,
}

impl Announced {
    /// Remembers what the free with this stamp took, and forgets the oldest if need be.
    pub fn remember(&mut self, stamp: u64, now: Tick, block: Block) {
        if self.stamps.len() >= REMEMBERED {
            self.stamps.pop_front();
            self.deaths.pop_front();
            self.blocks.pop_front();
        }
        self.stamps.push_back(stamp);
        self.deaths.push_back(now);
        self.blocks.push_back(Some(block));
    }

    /// The blocks whose going was announced, and not yet said not to have happened; the oldest first.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().flatten()
    }

    /// What the free with this stamp took, and when, if that is remembered and not yet given back.
    pub fn give_back(&mut self, stamp: u64) -> Option<(Block, Tick)> {
        let index = self.stamps.binary_search(&stamp).ok()?;
        Some((self.blocks.get_mut(index)?.take()?, *self.deaths.get(index)?))
    }
}

#[cfg(test)]
mod tests {
    use heapattach_process::addr::RemoteAddr;

    use super::{
        super::block::{Kind, RowId},
        *,
    };

    fn block(stamp: u64) -> Block {
        Block::new(RemoteAddr::new(16), stamp, Tick(0), Kind::new(RowId(1), 8, 1))
    }

    #[test]
    fn gives_each_block_back_once() {
        let mut announced = Announced::default();
        announced.remember(7, Tick(3), block(1));
        announced.remember(9, Tick(4), block(8));
        assert_eq!(announced.give_back(8), None);
        assert_eq!(announced.give_back(7), Some((block(1), Tick(3))));
        assert_eq!(announced.give_back(7), None);
        assert_eq!(announced.give_back(9), Some((block(8), Tick(4))));
    }

    #[test]
    fn forgets_the_oldest_and_does_not_grow() {
        let mut announced = Announced::default();
        for stamp in 0..200_000 {
            announced.remember(stamp, Tick(0), block(stamp));
        }
        assert_eq!((announced.stamps.len(), announced.blocks.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(announced.give_back(134_463), None);
        assert_eq!(announced.give_back(134_464), Some((block(134_464), Tick(0))));
        assert_eq!(announced.give_back(199_999), Some((block(199_999), Tick(0))));
    }
}
