//! What leads to what: by the words of blocks, or by pointers that a runtime knows.

use super::graph::Graph;

/// Blocks, or objects, by their numbers from 0 on.
pub trait Links {
    /// How many there are.
    fn count(&self) -> usize;

    /// Each that this one leads to; its number is lower than `count`.
    fn each(&self, from: u32, to: impl FnMut(u32));
}

impl Links for Graph {
    fn count(&self) -> usize {
        self.roots().len()
    }

    fn each(&self, from: u32, to: impl FnMut(u32)) {
        self.edges(from).iter().map(|hit| hit.block).for_each(to);
    }
}
