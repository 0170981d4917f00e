//! One sum of blocks: those that are known one by one, and those that samples stand for.

use super::{
    block::Kind,
    estimate::{Measure, Samples, float},
};

/// Blocks that are known one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// Their bytes.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// Some blocks together.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    exact: Exact,
    sampled: Option<Box<Samples>>,
}

impl Exact {
    /// One block more.
    pub fn add(&mut self, size: u64) {
        self.bytes = self.bytes.saturating_add(size);
        self.count = self.count.saturating_add(1);
    }

    /// One block less.
    pub fn remove(&mut self, size: u64) {
        self.bytes = self.bytes.saturating_sub(size);
        self.count = self.count.saturating_sub(1);
    }

    /// Those of another sum, too.
    pub fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.count = self.count.saturating_add(other.count);
    }

    /// Together with what samples stand for.
    pub fn and(self, sampled: Measure) -> Measure {
        Measure {
            bytes: sampled.bytes.plus(float(self.bytes)),
            count: sampled.count.plus(float(self.count)),
        }
    }
}

impl Sum {
    /// Of what was summed up elsewhere.
    pub fn new(exact: Exact, sampled: Option<&Samples>) -> Self {
        Self { exact, sampled: sampled.filter(|s| s.seen() > 0).map(|s| Box::new(*s)) }
    }

    /// So many blocks of one size, each of them known.
    pub fn exact(size: u64, blocks: u64) -> Self {
        let exact = Exact { bytes: size.saturating_mul(blocks), count: blocks };
        Self { exact, sampled: None }
    }

    /// Of so many sampled blocks of one size.
    #[cfg(test)]
    pub fn sampled(size: u64, blocks: u64, interval: u64) -> Self {
        let kind = Kind::new(super::RowId(1), size, interval);
        let mut sum = Self::default();
        (0..blocks).for_each(|_| sum.add(&kind));
        sum
    }

    /// Adds a block.
    pub fn add(&mut self, kind: &Kind) {
        match kind.probability() {
            None => self.exact.add(kind.size),
            Some(p) => self.sampled.get_or_insert_default().add(kind.size, p),
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.exact.merge(&other.exact);
        if let Some(more) = &other.sampled {
            self.sampled.get_or_insert_default().merge(more);
        }
    }

    /// With its intervals.
    pub fn measure(&self) -> Measure {
        self.exact.and(self.sampled.as_ref().map(|sum| sum.measure()).unwrap_or_default())
    }

    /// The records behind it.
    pub fn records(&self) -> u64 {
        self.exact.count.saturating_add(self.sampled.as_ref().map_or(0, |sum| sum.seen()))
    }

    /// The blocks that are known one by one, and those that samples stand for.
    pub fn parts(&self) -> (Exact, Option<&Samples>) {
        (self.exact, self.sampled.as_deref())
    }
}
