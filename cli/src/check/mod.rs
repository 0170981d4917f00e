//! Which blocks of the heap nobody can get at any more: a conservative check by reachability.
//!
//! ```text
//! blocks, layout, memory -> graph (who holds whom) -> mark (held, possible, lost)
//!                                                  -> fold (what was lost together) -> findings
//! ```
//!
//! Pure: memory that stands still is read through a trait. Every word may be a pointer; one that is
//! none can hide a leak, but never invents one. Memory is bounded by the number of blocks and of
//! words that lead to them.

mod blocks;
mod finding;
mod fold;
mod graph;
mod inside;
mod mark;
mod memory;
mod slack;
mod ways;

#[cfg(test)]
mod image;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod speed;

pub use blocks::{Block, Blocks};
pub use finding::{Amount, Finding, Findings, Kind};
pub use heapattach_injector::root::{RootKind, RootSet};
pub use memory::{Layout, Memory, Piece, Pointer};
#[cfg(test)]
use ways::Step;
pub use ways::{Retained, Way};

use graph::Graph;
use inside::Inside;

/// What a check found, and how much it had to leave out.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The findings.
    pub findings: Findings,
    /// Words looked at.
    pub words: u64,
    /// Blocks that cannot be as they were told.
    pub impossible: u64,
    /// Pointers that found no room; what they lead to counts as held.
    pub beyond_limit: u64,
    /// Who holds the largest sites, if that was asked for.
    pub retained: Vec<Retained>,
}

/// Checks all blocks, and finds out who holds those of as many reachable `sites`.
pub fn check(blocks: &Blocks, layout: &Layout, memory: &mut impl Memory, sites: usize) -> Checked {
    let graph = Graph::of(blocks, layout, memory);
    let marks = mark::mark(&graph, &mut Inside::new(blocks, layout, memory));
    let folded = fold::fold(&graph, &marks);
    let findings = Findings::of(blocks, &graph, &marks, &folded);
    let held = findings.all.iter().filter(|finding| finding.kind == Kind::Reachable);
    let largest: Vec<Finding> = held.take(sites).copied().collect();
    let retained = match sites {
        0 => Vec::new(),
        _ => ways::retained(blocks, &graph, &marks, &largest, memory),
    };
    Checked {
        findings,
        retained,
        words: graph.words,
        impossible: blocks.impossible,
        beyond_limit: graph.beyond_limit,
    }
}
