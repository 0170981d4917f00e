//! How the sums of a profile came about: the time in spans, and of each block in which span it was
//! allocated and what became of it.
//!
//! From this follows what any window of whole spans would say of its own, with intervals: all of it
//! is sums of cells, and nothing is ever subtracted.

use heapattach_profile::Sum;

/// The course of a session.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// When each span begins and, as the last, when the last one ends, in milliseconds since counting
    /// began. Empty if nothing is known.
    pub bounds_ms: Vec<u64>,
    /// Blocks that have span and fate in common.
    pub cells: Vec<Cell>,
    /// Why there is none; empty if it was not asked for.
    pub why_none: String,
}

impl Course {
    /// There is none, for this reason.
    pub fn none(why: &str) -> Self {
        Self { why_none: why.to_owned(), ..Self::default() }
    }
}

/// Blocks of one row that were allocated in one span and had the same fate.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Whose they are: the stack of a row,
    pub stack: u32,
    /// and its thread.
    pub thread: u32,
    /// The span in which they were allocated.
    pub birth: u8,
    /// What became of them.
    pub fate: Fate,
    /// How many, and how large.
    pub sum: Sum,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// The block is still in use.
    Held,
    /// Not known: there were more blocks than are kept at once.
    Unknown,
    /// The block was freed.
    Freed {
        /// The span in which it was freed.
        span: u8,
        /// Whether it was freed very soon.
        is_soon: bool,
    },
}
