//! The profile: what the events of a session add up to, by call stack, at any moment.
//!
//! ```text
//! events -> live (which block is it) -> sites (sums by stack) -> estimates with intervals
//!        -> mappings (which pages)   -> sites
//! ```
//!
//! No I/O, no clock, no symbols. Whatever the target writes, memory stays within [`Limits`], and
//! what had to be left out is counted in [`Oddities`], [`Mappings`] and the unknown site.

#![allow(dead_code, reason = "the report does not tell yet what did not add up among the pages")]

mod announced;
mod block;
mod estimate;
mod live;
mod mappings;
mod site;
mod sites;
mod sum;
mod table;
mod wide;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod models;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod throughput;
#[cfg(test)]
mod truth;

pub use estimate::{Estimate, Measure};
pub use live::Oddities;
pub use site::{Flow, Pages, Site, Tally};
pub use sum::Sum;

use std::{collections::HashMap, hash::Hash};

use heapattach_injector::event::{Event, StackId, What};

use block::Block;
use live::LiveSet;
use mappings::Mappings;
use sites::Sites;

/// Events whose addresses are fetched from memory at once; more would outrun the first cache.
const TOGETHER: usize = 64;

/// How much may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live blocks; each costs 48 to 96 bytes.
    pub blocks: usize,
    /// Ranges of pages.
    pub ranges: usize,
    /// Call stacks that are told apart.
    pub sites: usize,
}

/// The aggregate of a session's events.
#[derive(Debug)]
pub struct Profile {
    live: LiveSet,
    mappings: Mappings,
    sites: Sites,
    heap: Tally,
    pages: Pages,
    peak: Estimate,
}

impl Default for Limits {
    fn default() -> Self {
        Self { blocks: 1 << 24, ranges: 1 << 20, sites: 1 << 18 }
    }
}

impl Profile {
    /// A profile of nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            live: LiveSet::new(limits.blocks),
            mappings: Mappings::new(limits.ranges),
            sites: Sites::new(limits.sites),
            heap: Tally::default(),
            pages: Pages::default(),
            peak: Estimate::default(),
        }
    }

    /// Takes in the next events, in the order of their stamps.
    pub fn apply(&mut self, events: &[Event]) {
        for batch in events.chunks(TOGETHER) {
            self.live.warm(batch.iter().filter_map(|event| match event.what {
                What::Allocated { at, .. } | What::Freed { at, .. } => Some(at),
                _ => None,
            }));
            batch.iter().for_each(|event| self.apply_one(event));
        }
    }

    /// All blocks together.
    pub fn heap(&self) -> &Tally {
        &self.heap
    }

    /// All mapped pages together.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The most bytes that were live at once. The highest of many estimates is a high one of its
    /// kind: for a session with few samples this is rather above the truth.
    pub fn peak(&self) -> Estimate {
        self.peak.max(self.heap.measure(Flow::Live).bytes)
    }

    /// The sites of which something is known, those with the most bytes of this kind first.
    pub fn sites_by(&self, flow: Flow) -> Vec<&Site> {
        let known = self.sites.iter().filter(|site| site.is_known());
        let mut keyed: Vec<_> = known.map(|site| (site.heap.bytes(flow), site)).collect();
        keyed.sort_by(|(a, left), (b, right)| {
            b.total_cmp(a).then_with(|| left.stack.cmp(&right.stack))
        });
        keyed.into_iter().map(|(_, site)| site).collect()
    }

    /// The sites that share a key as one, which bears the stack of the first of them; those with the
    /// most bytes of this kind first.
    pub fn grouped_by<K: Eq + Hash>(
        &self,
        flow: Flow,
        mut key: impl FnMut(StackId) -> K,
    ) -> Vec<Site> {
        let mut places = HashMap::new();
        let mut groups: Vec<Site> = Vec::new();
        for site in self.sites_by(flow) {
            let place = *places.entry(key(site.stack)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.merge(site),
                None => groups.push(site.clone()),
            }
        }
        groups.sort_by(|a, b| b.heap.bytes(flow).total_cmp(&a.heap.bytes(flow)));
        groups
    }

    /// The recorded blocks that are live.
    pub fn live_records(&self) -> usize {
        self.live.len()
    }

    /// What did not add up among the blocks.
    pub fn oddities(&self) -> Oddities {
        self.live.oddities()
    }

    /// The pages, for what did not add up among them.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    fn apply_one(&mut self, event: &Event) {
        match event.what {
            What::Allocated { at, size, stack, interval } => {
                self.allocated(&Block::new(at, event.stamp, size, stack, interval));
            }
            What::Freed { at, block } => {
                if let Some(block) = self.live.freed(event.stamp, at, block) {
                    self.gone(&block);
                }
            }
            What::Mapped { at, length, stack } => {
                let placed = self.mappings.mapped(at, length, stack);
                for piece in placed.replaced {
                    self.sites.of(piece.stack.unwrap_or_default()).pages.remove(piece.bytes());
                    self.pages.remove(piece.bytes());
                }
                self.sites.of(stack).pages.add(placed.bytes, placed.kept);
                self.pages.add(placed.bytes, placed.kept);
            }
            What::Unmapped { at, length } => {
                for piece in self.mappings.unmapped(event.stamp, at, length) {
                    if let Some(stack) = piece.stack {
                        self.sites.of(stack).pages.remove(piece.bytes());
                        self.pages.remove(piece.bytes());
                    }
                }
            }
            What::Restored { announced } => self.restored(announced),
        }
    }

    fn allocated(&mut self, block: &Block) {
        let arrival = self.live.allocated(*block);
        if let Some(missed) = arrival.missed {
            self.gone(&missed);
        }
        for tally in [&mut self.heap, &mut self.sites.of(block.stack).heap] {
            tally.add(Flow::Allocated, block);
            if arrival.kept {
                tally.add(Flow::Live, block);
            }
        }
    }

    fn gone(&mut self, block: &Block) {
        // Only what goes can end a peak: on the way up there is nothing to note.
        if self.heap.bytes(Flow::Live) > self.peak.value {
            self.peak = self.heap.measure(Flow::Live).bytes;
        }
        for tally in [&mut self.heap, &mut self.sites.of(block.stack).heap] {
            tally.remove(Flow::Live, block);
            tally.add(Flow::Freed, block);
        }
    }

    fn restored(&mut self, announced: u64) {
        if let Some(block) = self.live.restored(announced) {
            for tally in [&mut self.heap, &mut self.sites.of(block.stack).heap] {
                tally.remove(Flow::Freed, &block);
                tally.add(Flow::Live, &block);
            }
            return;
        }
        for piece in self.mappings.restored(announced) {
            if let Some(stack) = piece.stack {
                self.sites.of(stack).pages.restore(piece.bytes());
                self.pages.restore(piece.bytes());
            }
        }
    }
}
