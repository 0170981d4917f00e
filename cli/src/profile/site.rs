//! A site: everything that was asked for by one call stack.

use heapattach_injector::event::StackId;

use super::{
    block::Block,
    estimate::{Measure, Samples, float},
    sum::{Exact, Sum},
};

/// Blocks since the attach: those handed out, those given back, and those still held.
///
/// The three are separate sums, since some blocks are neither live nor freed as far as we know:
/// those that found the live set full.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    exact: [Exact; 3],
    // Apart, so that a session which records every block finds a site in one cache line.
    sampled: Option<Box<[Samples; 3]>>,
}

/// One of the sums of a [`Tally`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Handed out since the attach.
    Allocated = 0,
    /// Given back since.
    Freed = 1,
    /// Held now.
    Live = 2,
}

/// Bytes of pages; these are exact, every call is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Mapped since the attach.
    pub mapped: u64,
    /// Mapped since the attach, and still.
    pub live: u64,
}

/// What one call stack asked for.
#[derive(Clone, Debug)]
pub struct Site {
    /// Who asked.
    pub stack: StackId,
    /// Blocks of the heap.
    pub heap: Tally,
    /// Pages of its own.
    pub pages: Pages,
}

impl Tally {
    /// Adds a block to one of the sums.
    pub fn add(&mut self, flow: Flow, block: &Block) {
        match block.probability() {
            None => self.exact[flow as usize].add(block.size),
            Some(p) => self.sampled.get_or_insert_default()[flow as usize].add(block, p),
        }
    }

    /// Takes a block away from one of the sums that it was added to.
    pub fn remove(&mut self, flow: Flow, block: &Block) {
        match block.probability() {
            None => self.exact[flow as usize].remove(block.size),
            Some(p) => self.sampled.get_or_insert_default()[flow as usize].remove(block, p),
        }
    }

    /// Adds all of another tally.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in self.exact.iter_mut().zip(&other.exact) {
            sum.merge(more);
        }
        if let Some(more) = &other.sampled {
            let sums = self.sampled.get_or_insert_default();
            sums.iter_mut().zip(more.iter()).for_each(|(sum, more)| sum.merge(more));
        }
    }

    /// One of the sums, with its intervals.
    pub fn measure(&self, flow: Flow) -> Measure {
        self.sum(flow).measure()
    }

    /// One of the sums, to be added to others.
    pub fn sum(&self, flow: Flow) -> Sum {
        let sampled = self.sampled.as_ref().map(|sums| &sums[flow as usize]);
        Sum::new(self.exact[flow as usize], sampled)
    }

    /// The records behind one of the sums.
    pub fn samples(&self, flow: Flow) -> u64 {
        let sampled = self.sampled.as_ref().map_or(0, |sums| sums[flow as usize].seen());
        self.exact[flow as usize].count.saturating_add(sampled)
    }

    /// The bytes of one of the sums without the interval, for whoever asks at each event.
    pub fn bytes(&self, flow: Flow) -> f64 {
        let sampled = self.sampled.as_ref().map_or(0.0, |sums| sums[flow as usize].bytes());
        float(self.exact[flow as usize].bytes) + sampled
    }
}

impl Pages {
    /// Some bytes were mapped; `kept` says whether we will see them go.
    pub fn add(&mut self, bytes: u64, kept: bool) {
        self.mapped = self.mapped.saturating_add(bytes);
        if kept {
            self.live = self.live.saturating_add(bytes);
        }
    }

    /// Some bytes were unmapped.
    pub fn remove(&mut self, bytes: u64) {
        self.live = self.live.saturating_sub(bytes);
    }

    /// Some bytes that were taken for unmapped are not.
    pub fn restore(&mut self, bytes: u64) {
        self.live = self.live.saturating_add(bytes);
    }
}

impl Site {
    /// A site that has asked for nothing yet.
    pub fn new(stack: StackId) -> Self {
        Self { stack, heap: Tally::default(), pages: Pages::default() }
    }

    /// Adds all that another site asked for.
    pub fn merge(&mut self, other: &Self) {
        self.heap.merge(&other.heap);
        self.pages.mapped = self.pages.mapped.saturating_add(other.pages.mapped);
        self.pages.live = self.pages.live.saturating_add(other.pages.live);
    }

    /// Whether it has asked for anything.
    pub fn is_known(&self) -> bool {
        self.pages.mapped > 0 || self.heap.samples(Flow::Allocated) > 0
    }
}
