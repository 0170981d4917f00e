//! Blocks that a session recorded, as the allocator has them when it is over: requested against occupied bytes, and
//! what is free and stays in memory beside them, by the stack that allocated them.

use heapattach_ledger::{FrameReport, Ledger};
use heapattach_profile::Range;
use heapattach_verdict::place::Place;
use serde::{Deserialize, Serialize};

use super::heap::frames;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SitesReport<R = SiteRow> {
    /// Blocks that were recorded and in use when the session ended.
    pub recorded: u64,
    /// Of these, the ones that the allocator has in use at the moment.
    pub found: u64,
    /// Recorded blocks that were too many to be looked for.
    pub left_out: u64,
    /// What all that were found stand for.
    pub total: SiteSums,
    /// By stack: those that keep most free bytes, and those of most rounding.
    pub rows: Vec<R>,
}

/// What blocks stand for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteSums {
    /// Blocks.
    pub blocks: Range,
    /// Bytes requested.
    pub requested: Range,
    /// Bytes that the allocator has for them (malloc_usable_size).
    pub occupied: Range,
    /// Their part of what is free in the pages, slabs and spans that they lie in.
    pub pinned: Range,
}

/// A stack, as a moment knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteRow {
    /// The number of its first row in the recording.
    pub row: u32,
    /// The sums.
    #[serde(flatten)]
    pub sums: SiteSums,
}

/// A stack with its names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlacedSite {
    /// The frame that caused the allocations, in words.
    pub place: String,
    /// Which of `frames` that is: those before it are allocators and the like.
    pub cause: usize,
    /// The calls that led to it, innermost first.
    pub frames: Vec<FrameReport>,
    /// The sums.
    #[serde(flatten)]
    pub sums: SiteSums,
}

impl SitesReport {
    /// The same with the names that a ledger of the session has; `stack` tells which of its stacks a row has.
    pub fn placed(
        &self,
        ledger: &Ledger,
        stack: impl Fn(u32) -> Option<u32>,
    ) -> SitesReport<PlacedSite> {
        let place = |site: &SiteRow| {
            let known = stack(site.row);
            let cause = known.and_then(|stack| ledger.cause(stack));
            PlacedSite {
                place: cause.map_or_else(Place::unknown, |call| Place::of(&call)).words(),
                cause: known
                    .and_then(|stack| ledger.stacks.get(stack))
                    .map_or(0, |stack| stack.cause as usize),
                frames: known.map(|stack| frames(ledger, stack)).unwrap_or_default(),
                sums: site.sums.clone(),
            }
        };
        let Self { recorded, found, left_out, .. } = *self;
        let rows = self.rows.iter().map(place).collect();
        SitesReport { recorded, found, left_out, total: self.total.clone(), rows }
    }
}

impl SiteSums {
    /// Occupied bytes that were not requested.
    pub fn rounding(&self) -> f64 {
        (self.occupied.value - self.requested.value).max(0.0)
    }
}
