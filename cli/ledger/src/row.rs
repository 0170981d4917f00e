//! What one stack allocated.

use serde::{Deserialize, Serialize};

use super::Histogram;
use heapattach_profile::{Flow, Measure, QuickSum, Sum, Tally};

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// 0 if it is unknown.
    pub tid: i32,
    /// Printable.
    pub name: String,
}

/// What can be measured of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// In use at the end
    Live,
    /// Allocated since the attach
    Allocated,
    /// Freed since the attach
    Freed,
    /// In use when most was in use
    Peak,
    /// Freed very soon
    Temporary,
}

/// What one stack allocated in one thread.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The stack.
    pub stack: u32,
    /// The thread.
    pub thread: u32,
    /// Blocks of the heap.
    pub heap: Tally,
    /// Bytes of pages mapped since the attach.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// Blocks allocated by their size.
    pub sizes: Histogram,
    /// Blocks freed by how long they lived, in microseconds.
    pub lifetimes: Histogram,
    /// Of the blocks allocated, those that realloc gave for an older one, estimated.
    pub reallocated: f64,
}

impl Metric {
    /// All of them, in the order of [`Row::sums`].
    pub const ALL: [Self; 5] =
        [Self::Live, Self::Allocated, Self::Freed, Self::Peak, Self::Temporary];

    /// The name of the metric, in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Allocated => "allocated",
            Self::Freed => "freed",
            Self::Peak => "peak",
            Self::Temporary => "temporary",
        }
    }
}

impl From<Metric> for Flow {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Live => Self::Live,
            Metric::Allocated => Self::Allocated,
            Metric::Freed => Self::Freed,
            Metric::Peak => Self::Peak,
            Metric::Temporary => Self::Temporary,
        }
    }
}

impl Row {
    /// One of the sums.
    pub fn sum(&self, metric: Metric) -> Sum {
        self.heap.sum(metric.into())
    }

    /// Adds one of the sums to another.
    pub fn add_to(&self, metric: Metric, sum: &mut Sum) {
        self.heap.add_to(metric.into(), sum);
    }

    /// Adds the bytes of one of the sums to others.
    #[inline]
    pub fn add_bytes_to(&self, metric: Metric, sum: &mut QuickSum) {
        self.heap.add_bytes_to(metric.into(), sum);
    }

    /// All of them, by [`Metric`].
    pub fn sums(&self) -> [Sum; 5] {
        Metric::ALL.map(|metric| self.sum(metric))
    }

    /// One of the sums, with its intervals.
    pub fn measure(&self, metric: Metric) -> Measure {
        self.heap.measure(metric.into())
    }

    /// Puts a sum in the place of one.
    pub fn set(&mut self, metric: Metric, sum: &Sum) {
        self.heap.set(metric.into(), sum);
    }

    /// Adds all that another row allocated.
    pub fn merge(&mut self, other: &Self) {
        self.heap.merge(&other.heap);
        self.mapped = self.mapped.saturating_add(other.mapped);
        self.mapped_live = self.mapped_live.saturating_add(other.mapped_live);
        self.sizes.merge(&other.sizes);
        self.lifetimes.merge(&other.lifetimes);
        self.reallocated += other.reallocated;
    }
}

#[cfg(any(test, feature = "sample"))]
impl Row {
    /// Puts others in the place of all sums, by [`Metric`].
    pub fn set_sums(&mut self, sums: [Sum; 5]) {
        Metric::ALL.into_iter().zip(&sums).for_each(|(metric, sum)| self.set(metric, sum));
    }

    /// Adds to one of the sums.
    pub fn add(&mut self, metric: Metric, more: &Sum) {
        let mut sum = self.sum(metric);
        sum.merge(more);
        self.set(metric, &sum);
    }
}
