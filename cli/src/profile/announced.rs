//! The last frees, in case one of them turns out not to have happened: a `realloc` announces that
//! the old block goes before it knows whether it will.

use std::collections::VecDeque;

use super::block::Block;

/// As many frees as other threads make while one thread is off the processor in a failing call.
pub const REMEMBERED: usize = 65_536;

/// What the last frees took, by their stamps.
#[derive(Debug, Default)]
pub struct Announced {
    /// Ascending. Apart from the blocks, whose alignment would double the room for a stamp.
    stamps: VecDeque<u64>,
    /// `None` is settled: its block was given back.
    blocks: VecDeque<Option<Block>>,
}

impl Announced {
    /// Remembers what the free with this stamp took, and forgets the oldest if need be.
    pub fn remember(&mut self, stamp: u64, block: Block) {
        if self.stamps.len() >= REMEMBERED {
            self.stamps.pop_front();
            self.blocks.pop_front();
        }
        self.stamps.push_back(stamp);
        self.blocks.push_back(Some(block));
    }

    /// What the free with this stamp took, if that is remembered and not yet given back.
    pub fn give_back(&mut self, stamp: u64) -> Option<Block> {
        let index = self.stamps.binary_search(&stamp).ok()?;
        self.blocks.get_mut(index)?.take()
    }
}

#[cfg(test)]
mod tests {
    use heapattach_injector::{addr::RemoteAddr, event::StackId};

    use super::*;

    fn block(stamp: u64) -> Block {
        Block::new(RemoteAddr::new(16), stamp, 8, StackId(1), 1)
    }

    #[test]
    fn gives_each_block_back_once() {
        let mut announced = Announced::default();
        announced.remember(7, block(1));
        announced.remember(9, block(8));
        assert_eq!(announced.give_back(8), None);
        assert_eq!(announced.give_back(7), Some(block(1)));
        assert_eq!(announced.give_back(7), None);
        assert_eq!(announced.give_back(9), Some(block(8)));
    }

    #[test]
    fn forgets_the_oldest_and_does_not_grow() {
        let mut announced = Announced::default();
        for stamp in 0..200_000 {
            announced.remember(stamp, block(stamp));
        }
        assert_eq!((announced.stamps.len(), announced.blocks.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(announced.give_back(134_463), None);
        assert_eq!(announced.give_back(134_464), Some(block(134_464)));
        assert_eq!(announced.give_back(199_999), Some(block(199_999)));
    }
}
