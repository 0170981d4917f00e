//! Which blocks of the heap the program can no longer reach: a conservative check by reachability.
//!
//! ```text
//! blocks, layout, memory -> graph (who holds whom) -> mark (held, possible, lost)
//!                                                  -> fold (what leaked together) -> findings
//! ```
//!
//! ```
//! use heapattach_reach::{Block, Blocks, Kind, Layout, Memory, Piece, RootKind, look};
//!
//! /// A global variable at 0x1000 that points to the first of two blocks; all else is zero.
//! struct Heap;
//!
//! impl Memory for Heap {
//!     fn read(&mut self, at: u64, buffer: &mut [u8]) {
//!         buffer.fill(0);
//!         if at == 0x1000 {
//!             buffer[..8].copy_from_slice(&0x9000_u64.to_le_bytes());
//!         }
//!     }
//! }
//!
//! let block = |at, stack| Block { at, size: 32, stack };
//! let blocks = Blocks::new(vec![block(0x9000, 1), block(0xa000, 2)]);
//! let pieces = vec![Piece { range: 0x1000..0x1008, root: Some(RootKind::Globals) }];
//! let layout = Layout { pieces, ..Layout::default() };
//! let checked = look(&blocks, &layout, &mut Heap, 0).conclude(&blocks, &mut |_| false);
//! let leak = checked.findings.all.iter().find(|one| one.kind == Kind::Direct);
//! assert_eq!(leak.map(|one| one.stack), Some(2));
//! ```
//!
//! Knows no process, no file, no clock and no names: memory that does not change meanwhile is read through a
//! trait. Every word may be a pointer; one that is none can hide a leak, but never invents one. Memory is
//! bounded by the number of blocks and of words that lead to them.

mod blocks;
mod by_label;
mod dominators;
mod finding;
mod fold;
mod graph;
mod holding;
mod inside;
mod links;
mod mark;
mod memory;
mod root_place;
mod slack;
mod unrecorded;
mod ways;

#[cfg(test)]
mod image;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod speed;

pub use blocks::{Block, Blocks, UNRECORDED};
pub use by_label::{Row, rows};
pub use finding::{Amount, Finding, Findings, Kind};
pub use graph::RootWord;
pub use heapattach_process::root::{RootKind, RootSet};
pub use holding::{Above, Group, Holding};
pub use links::Links;
pub use memory::{Layout, Memory, Piece, Pointer};
pub use unrecorded::Unrecorded;
pub use ways::Retained;
#[cfg(test)]
use ways::{Step, Way};

use std::collections::HashMap;

use blocks::Hit;
use graph::{Graph, Noted};
use inside::{Inside, Meaning};
use mark::Mark;

/// What a check found, and how much it had to leave out.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The findings, of what was recorded.
    pub findings: Findings,
    /// Blocks whose allocation was not recorded.
    pub unrecorded: Unrecorded,
    /// What was suppressed.
    pub quiet: Amount,
    /// Words looked at.
    pub words: u64,
    /// Blocks that cannot be as they were told.
    pub impossible: u64,
    /// Pointers that found no room; what they lead to counts as held.
    pub beyond_limit: u64,
    /// Who holds the largest sites, if that was asked for.
    pub retained: Vec<Retained>,
}

/// A suppressed block can lead to more suppressed ones; no program needs more rounds.
const ROUNDS: usize = 8;

/// What was seen in memory; nothing more is asked of it then.
pub struct Look {
    graph: Graph,
    marks: Vec<Mark>,
    /// What each pointer to the inside of a block means that may count.
    meanings: HashMap<Hit, Meaning>,
    retained: Vec<Retained>,
}

/// Looks through memory, and finds out who holds the blocks of as many reachable `sites`.
pub fn look(blocks: &Blocks, layout: &Layout, memory: &mut impl Memory, sites: usize) -> Look {
    let noted = if sites > 0 { Noted::Best } else { Noted::Kinds };
    let graph = Graph::of(blocks, layout, memory, noted);
    let mut inside = Inside::new(blocks, layout, memory);
    let held = vec![false; blocks.len()];
    let marks = mark::mark(&graph, &held, &mut |hit| inside.meaning(hit));
    // What is held by us later leads to less than all that is not held now.
    let own = (0..).take(blocks.len()).flat_map(|block| graph.edges(block));
    let hits = graph.inside().iter().chain(own.filter(|hit| hit.offset != 0));
    let open = hits.filter(|hit| marks[hit.block as usize] != Mark::Held);
    let meanings = open.map(|hit| (*hit, inside.meaning(*hit))).collect();
    let retained = match sites {
        0 => Vec::new(),
        _ => {
            let folded = fold::fold(&graph, &marks);
            let findings =
                Findings::of(blocks, &graph, &marks, &folded, &unrecorded::marked(blocks));
            let held = findings.all.iter().filter(|finding| finding.kind == Kind::Reachable);
            let largest: Vec<Finding> = held.take(sites).copied().collect();
            ways::retained(blocks, &graph, &marks, &largest, memory)
        }
    };
    Look { graph, marks, meanings, retained }
}

impl Look {
    /// Who holds the largest sites.
    pub fn retained(&self) -> &[Retained] {
        &self.retained
    }

    /// The blocks that nothing certain leads to, by their numbers.
    pub fn leaked(&self) -> impl Iterator<Item = u32> {
        let marks = (0..).zip(&self.marks);
        marks.filter(|(_, mark)| **mark != Mark::Held).map(|(number, _)| number)
    }

    /// What is leaked, without the blocks that are suppressed, as `is_quiet` says: they
    /// count as held, and so does what they lead to.
    pub fn conclude(self, blocks: &Blocks, is_quiet: &mut dyn FnMut(&Block) -> bool) -> Checked {
        let Self { graph, mut marks, meanings, retained } = self;
        let meaning = |hit: Hit| meanings.get(&hit).copied().unwrap_or(Meaning::Doubtful);
        let mut held = vec![false; blocks.len()];
        let loud: Vec<bool> = marks.iter().map(|&mark| mark != Mark::Held).collect();
        for _ in 0..ROUNDS {
            let mut is_new = false;
            for ((block, &mark), held) in blocks.all().iter().zip(&marks).zip(&mut held) {
                if mark != Mark::Held && block.is_recorded() && is_quiet(block) {
                    (*held, is_new) = (true, true);
                }
            }
            if !is_new {
                break;
            }
            marks = mark::mark(&graph, &held, &mut { meaning });
        }
        let is_quiet = |(&loud, &mark): (&bool, &Mark)| loud && mark == Mark::Held;
        let quiet: Vec<bool> = loud.iter().zip(&marks).map(is_quiet).collect();
        let folded = fold::fold(&graph, &marks);
        let (findings, unrecorded) = unrecorded::divide(blocks, &quiet, |quiet| {
            Findings::of(blocks, &graph, &marks, &folded, quiet)
        });
        let mut sum = Amount::default();
        let all = blocks.all().iter().zip(&quiet);
        let all = all.filter(|(block, quiet)| **quiet && block.is_recorded());
        all.for_each(|(block, _)| sum.add(block.size));
        Checked {
            findings,
            unrecorded,
            quiet: sum,
            retained,
            words: graph.words,
            impossible: blocks.impossible,
            beyond_limit: graph.beyond_limit,
        }
    }
}

/// Checks all blocks, and finds out who holds those of as many reachable `sites`.
#[cfg(test)]
pub fn check(blocks: &Blocks, layout: &Layout, memory: &mut impl Memory, sites: usize) -> Checked {
    look(blocks, layout, memory, sites).conclude(blocks, &mut |_| false)
}
