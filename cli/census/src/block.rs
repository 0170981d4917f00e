//! A block of a heap, and who takes them in.

use std::ops::Range;

use serde::Serialize;

/// What a block is to its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The program has it.
    Used,
    /// Free, in a list or bitmap of its arena.
    Free,
    /// Free, in the cache of a thread or of a processor: other threads cannot have it.
    Cached,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address that malloc returned, or would return.
    pub at: u64,
    /// The bytes that can be used there (malloc_usable_size), without the allocator's own.
    pub size: u64,
    /// Whether the program has it.
    pub state: State,
    /// Its arena: an index into [`Walk::arenas`](crate::Walk::arenas).
    pub arena: u32,
    /// The size class, if the allocator has such; else 0.
    pub class: u32,
}

/// Takes in the blocks of a walk, in ascending order within a range that an arena allocates from.
pub trait Sink {
    /// One more.
    fn block(&mut self, block: Block);

    /// The blocks that come next lie in memory that the allocator returns only as a whole: a slab, a span.
    fn unit(&mut self, _: Range<u64>) {}
}

impl Sink for Vec<Block> {
    fn block(&mut self, block: Block) {
        self.push(block);
    }
}

/// Only the checks of a walk are of interest.
impl Sink for () {
    fn block(&mut self, _: Block) {}
}
