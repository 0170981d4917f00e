//! A row of the sheet: everything that one call stack allocated in one thread.

use heapattach_process::event::StackId;

use crate::{
    block::Kind,
    estimate::{Measure, Samples},
    exact::{Exact, float},
    histogram::Histogram,
    quick_sum::QuickSum,
    sum::Sum,
    unseen::Unseen,
};

/// The sums of a [`Tally`].
pub const FLOWS: usize = 5;

/// Blocks since the attach, in several sums.
///
/// They are separate, since some blocks are neither live nor freed as far as we know: those that
/// found the live set full.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    exact: [Exact; FLOWS],
    // Apart, so that a session which records every block finds a row in few cache lines.
    sampled: Option<Box<[Samples; FLOWS]>>,
    /// For each sum, what the samples may have missed.
    unseen: Unseen,
}

/// One of the sums of a [`Tally`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Allocated since the attach.
    Allocated = 0,
    /// Freed since.
    Freed = 1,
    /// In use now.
    Live = 2,
    /// In use when most was in use.
    Peak = 3,
    /// Freed very soon.
    Temporary = 4,
}

/// Bytes of pages; these are exact, every call is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Mapped since the attach.
    pub mapped: u64,
    /// Mapped since the attach, and still.
    pub live: u64,
}

/// What one call stack allocated in one thread.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The stack that asked.
    pub stack: StackId,
    /// In which thread; 0: not told apart.
    pub thread: u16,
    /// Peaks that had been noted when it last changed.
    pub peaks: u32,
    /// Snapshots that had been made when it last changed.
    pub snapshots: u32,
    /// Blocks of the heap. Its peak is stale where `peaks` is.
    pub heap: Tally,
    /// Pages of its own.
    pub pages: Pages,
    /// Blocks allocated by size.
    pub sizes: Histogram,
    /// Blocks freed by how long they lived, in microseconds.
    pub lifetimes: Histogram,
    /// Blocks allocated by `realloc` for older ones.
    pub exchanged: f64,
}

impl Tally {
    /// Adds a block to one of the sums.
    #[inline]
    pub fn add(&mut self, flow: Flow, kind: &Kind) {
        match kind.probability() {
            None => self.exact[flow as usize].add(kind.size),
            Some(p) => self.sampled.get_or_insert_default()[flow as usize].add(kind.size, p),
        }
    }

    /// Takes a block away from one of the sums that it was added to.
    #[inline]
    pub fn remove(&mut self, flow: Flow, kind: &Kind) {
        match kind.probability() {
            None => self.exact[flow as usize].remove(kind.size),
            Some(p) => self.sampled.get_or_insert_default()[flow as usize].remove(kind.size, p),
        }
    }

    /// Adds so many blocks of one size, each taken with this probability, if they were not all.
    pub fn add_many(&mut self, flow: Flow, size: u64, probability: Option<f64>, blocks: u64) {
        match probability {
            None => self.exact[flow as usize]
                .merge(&Exact { bytes: size.saturating_mul(blocks), count: blocks }),
            Some(p) => {
                self.sampled.get_or_insert_default()[flow as usize].add_many(size, p, blocks);
            }
        }
    }

    /// Takes so many away.
    pub fn remove_many(&mut self, flow: Flow, size: u64, probability: Option<f64>, blocks: u64) {
        match probability {
            None => {
                let exact = &mut self.exact[flow as usize];
                exact.bytes = exact.bytes.saturating_sub(size.saturating_mul(blocks));
                exact.count = exact.count.saturating_sub(blocks);
            }
            Some(p) => {
                self.sampled.get_or_insert_default()[flow as usize].remove_many(size, p, blocks);
            }
        }
    }

    /// Takes what is live for the peak.
    pub fn note_peak(&mut self) {
        self.exact[Flow::Peak as usize] = self.exact[Flow::Live as usize];
        if let Some(sums) = &mut self.sampled {
            sums[Flow::Peak as usize] = sums[Flow::Live as usize];
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
        self.unseen = self.unseen.max(other.unseen);
    }

    /// Says how much may be there of which no sample was seen.
    pub fn beside(&mut self, unseen: Unseen) {
        self.unseen = unseen;
    }

    /// How much that is.
    pub fn unseen(&self) -> Unseen {
        self.unseen
    }

    /// The blocks of one of the sums that are known one by one.
    pub fn certain(&self, flow: Flow) -> Exact {
        self.exact[flow as usize]
    }

    /// One of the sums, with its intervals.
    pub fn measure(&self, flow: Flow) -> Measure {
        let nothing = Samples::default();
        let sampled = self.sampled.as_ref().map_or(&nothing, |sums| &sums[flow as usize]);
        self.exact[flow as usize].and(sampled.measure(self.unseen))
    }

    /// Whether anything in it is sampled.
    pub fn is_sampled(&self) -> bool {
        self.sampled.as_ref().is_some_and(|sums| sums.iter().any(|sum| sum.seen() > 0))
    }

    /// One of the sums, to be added to others.
    pub fn sum(&self, flow: Flow) -> Sum {
        let sampled = self.sampled.as_ref().map(|sums| &sums[flow as usize]);
        Sum::new(self.exact[flow as usize], sampled).beside(self.unseen)
    }

    /// Adds one of the sums to another.
    pub fn add_to(&self, flow: Flow, sum: &mut Sum) {
        let sampled = self.sampled.as_ref().map(|sums| &sums[flow as usize]);
        sum.take(&self.exact[flow as usize], sampled, self.unseen);
    }

    /// Adds the bytes of one of the sums to others.
    #[inline]
    pub fn add_bytes_to(&self, flow: Flow, sum: &mut QuickSum) {
        let sampled = self.sampled.as_ref().map(|sums| &sums[flow as usize]);
        sum.take(&self.exact[flow as usize], sampled);
    }

    /// Puts a sum in the place of one.
    pub fn set(&mut self, flow: Flow, sum: &Sum) {
        let (exact, sampled) = sum.parts();
        self.exact[flow as usize] = exact;
        match (sampled, &mut self.sampled) {
            (None, None) => {}
            (None, Some(sums)) => sums[flow as usize] = Samples::default(),
            (Some(sampled), sums) => sums.get_or_insert_default()[flow as usize] = *sampled,
        }
    }

    /// The records behind one of the sums.
    pub fn samples(&self, flow: Flow) -> u64 {
        let sampled = self.sampled.as_ref().map_or(0, |sums| sums[flow as usize].seen());
        self.exact[flow as usize].count.saturating_add(sampled)
    }

    /// The bytes of one of the sums without the interval, for a caller that asks at each event.
    pub fn bytes(&self, flow: Flow) -> f64 {
        let sampled = self.sampled.as_ref().map_or(0.0, |sums| sums[flow as usize].bytes());
        float(self.exact[flow as usize].bytes) + sampled
    }

    /// The number of blocks of one of the sums, without the interval.
    pub fn blocks(&self, flow: Flow) -> f64 {
        let sampled = self.sampled.as_ref().map_or(0.0, |sums| sums[flow as usize].blocks());
        float(self.exact[flow as usize].count) + sampled
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

impl Row {
    /// A row that has allocated nothing yet.
    pub fn new(stack: StackId, thread: u16) -> Self {
        Self { stack, thread, ..Self::default() }
    }

    /// Adds all that another row allocated; peaks must not be stale.
    pub fn merge(&mut self, other: &Self) {
        self.heap.merge(&other.heap);
        self.pages.mapped = self.pages.mapped.saturating_add(other.pages.mapped);
        self.pages.live = self.pages.live.saturating_add(other.pages.live);
        self.sizes.merge(&other.sizes);
        self.lifetimes.merge(&other.lifetimes);
        self.exchanged += other.exchanged;
    }

    /// A word out of each of its cache lines.
    pub fn touch(&self) -> u64 {
        let [first, .., last] = &self.heap.exact;
        first.count ^ last.count ^ self.pages.mapped ^ u64::from(self.peaks)
    }

    /// Whether it has allocated anything.
    pub fn is_known(&self) -> bool {
        self.pages.mapped > 0 || self.heap.samples(Flow::Allocated) > 0
    }
}
