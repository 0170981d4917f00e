//! Which blocks the program can still get at.
//!
//! A pointer to the beginning of a block holds it, one to its inside may be chance: what only such
//! pointers lead to is possibly leaked. Marked with a list of what is still to be looked at, never by
//! recursion.

use super::{blocks::Hit, graph::Graph, inside::Meaning};

/// What became of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Nothing that the program can reach leads to it.
    #[default]
    Lost,
    /// Something does, but on the way there is a pointer to the inside of a block.
    Possible,
    /// The program can reach it.
    Held,
}

struct Marking<'a> {
    graph: &'a Graph,
    marks: Vec<Mark>,
    work: Vec<u32>,
    /// Pointers to the inside of blocks that were not held when they were found.
    doubts: Vec<Hit>,
}

/// Marks every block; some are `held` by us. `meaning` is asked about pointers to the inside of blocks.
pub fn mark(graph: &Graph, held: &[bool], meaning: &mut impl FnMut(Hit) -> Meaning) -> Vec<Mark> {
    let blocks = graph.roots().len();
    let mut marking = Marking {
        graph,
        marks: vec![Mark::Lost; blocks],
        work: Vec::new(),
        doubts: graph.inside().to_vec(),
    };
    for ((block, roots), held) in (0..).zip(graph.roots()).zip(held) {
        if *held || !roots.is_empty() {
            marking.set(block, Mark::Held);
        }
    }
    let mut possible = Vec::new();
    loop {
        marking.hold();
        let Some(hit) = marking.doubts.pop() else { break };
        if marking.marks[hit.block as usize] == Mark::Held {
            continue;
        }
        match meaning(hit) {
            Meaning::Holds => marking.set(hit.block, Mark::Held),
            Meaning::Doubtful => possible.push(hit.block),
            Meaning::Nothing => {}
        }
    }
    possible.into_iter().for_each(|block| marking.set(block, Mark::Possible));
    marking.follow_possible(meaning);
    marking.marks
}

impl Marking<'_> {
    fn set(&mut self, block: u32, mark: Mark) {
        let now = &mut self.marks[block as usize];
        if *now == Mark::Lost || (*now == Mark::Possible && mark == Mark::Held) {
            *now = mark;
            self.work.push(block);
        }
    }

    /// Holds what the blocks in `work` lead to.
    fn hold(&mut self) {
        while let Some(block) = self.work.pop() {
            for &hit in self.graph.edges(block) {
                if self.marks[hit.block as usize] == Mark::Held {
                    continue;
                }
                if hit.offset == 0 {
                    self.set(hit.block, Mark::Held);
                } else {
                    self.doubts.push(hit);
                }
            }
        }
    }

    fn follow_possible(&mut self, meaning: &mut impl FnMut(Hit) -> Meaning) {
        while let Some(block) = self.work.pop() {
            for &hit in self.graph.edges(block) {
                if self.marks[hit.block as usize] == Mark::Lost
                    && (hit.offset == 0 || meaning(hit) != Meaning::Nothing)
                {
                    self.set(hit.block, Mark::Possible);
                }
            }
        }
    }
}
