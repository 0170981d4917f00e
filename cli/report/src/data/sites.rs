//! Blocks that a session recorded, as the allocator has them when it is over: requested against occupied bytes, and
//! what is free and stays in memory beside them, by the stack that allocated them.

use std::collections::HashMap;

use heapattach_ledger::{FrameReport, Ledger};
use heapattach_profile::Range;
use heapattach_verdict::place::Place;
use serde::{Deserialize, Serialize};

use super::{
    heap::frames,
    likely::{LikelyReport, LikelySites},
};

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SitesReport<R = SiteRow, L = LikelyReport> {
    /// Blocks that were recorded and in use when the session ended.
    pub recorded: u64,
    /// Of these, the ones that the allocator has in use at the moment.
    pub found: u64,
    /// Recorded blocks that were too many to be looked for.
    pub left_out: u64,
    /// What all that were found stand for.
    pub total: SiteSums,
    /// By stack: those that keep most free bytes, those of most rounding, and those with most that was not written.
    pub rows: Vec<R>,
    /// Who may have allocated the other blocks in use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub likely: Option<L>,
}

/// All of them with their names.
pub type PlacedSites = SitesReport<PlacedSite, LikelySites>;

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
    /// Bytes of theirs that were not written for some time after the session, if that was watched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cold: Option<Range>,
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
    pub fn placed(&self, ledger: &Ledger, stack: impl Fn(u32) -> Option<u32>) -> PlacedSites {
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
        let likely = self.likely.as_ref().map(|likely| likely.placed(ledger, &stack));
        SitesReport { recorded, found, left_out, total: self.total.clone(), rows, likely }
    }
}

/// Stacks of one place together.
#[derive(Clone, Debug)]
pub struct MergedSite<'a> {
    /// The one of them that keeps most.
    pub first: &'a PlacedSite,
    /// How many.
    pub stacks: usize,
    /// What they stand for together.
    pub sums: SiteSums,
}

impl PlacedSites {
    /// Stacks that the same frame caused, together, those that keep most free bytes first.
    pub fn by_place(&self) -> Vec<MergedSite<'_>> {
        let mut places: Vec<MergedSite<'_>> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for site in &self.rows {
            let at = *known.entry(&site.place).or_insert(places.len());
            match places.get_mut(at) {
                Some(place) => {
                    place.stacks += 1;
                    place.sums.add(&site.sums);
                }
                None => places.push(MergedSite { first: site, stacks: 1, sums: site.sums.clone() }),
            }
        }
        places.sort_by(|a, b| b.sums.pinned.value.total_cmp(&a.sums.pinned.value));
        places
    }
}

impl SiteSums {
    /// Blocks that were sampled apart from these.
    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.blocks, other.blocks),
            (&mut self.requested, other.requested),
            (&mut self.occupied, other.occupied),
            (&mut self.pinned, other.pinned),
        ];
        pairs.into_iter().for_each(|(sum, other)| *sum = together(*sum, other));
        self.cold = match (self.cold, other.cold) {
            (Some(sum), Some(other)) => Some(together(sum, other)),
            (sum, other) => sum.or(other),
        };
    }

    /// Bytes that were not written.
    pub fn not_written(&self) -> f64 {
        self.cold.map_or(0.0, |cold| cold.value)
    }

    /// Occupied bytes that were not requested.
    pub fn rounding(&self) -> f64 {
        (self.occupied.value - self.requested.value).max(0.0)
    }
}

/// The sum of two numbers that are estimated apart: their variances add up.
pub(super) fn together(a: Range, b: Range) -> Range {
    let value = a.value + b.value;
    Range {
        value,
        low: value - (a.value - a.low).hypot(b.value - b.low),
        high: value + (a.high - a.value).hypot(b.high - b.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(place: &str, pinned: Range) -> PlacedSite {
        let sums = SiteSums { pinned, ..SiteSums::default() };
        PlacedSite { place: place.to_owned(), sums, ..PlacedSite::default() }
    }

    #[test]
    fn stacks_of_one_place_are_one_row() {
        let exact = |value| Range { value, low: value, high: value };
        let wide = |value: f64, by: f64| Range { value, low: value - by, high: value + by };
        let rows =
            vec![site("b", exact(90.0)), site("a", wide(60.0, 3.0)), site("a", wide(50.0, 4.0))];
        let sites = PlacedSites { rows, ..SitesReport::default() };
        let places = sites.by_place();
        let told: Vec<_> = places
            .iter()
            .map(|own| (own.first.place.as_str(), own.stacks, own.sums.pinned))
            .collect();
        assert_eq!(told, [("a", 2, wide(110.0, 5.0)), ("b", 1, exact(90.0))]);
    }
}
