//! One sum of blocks: those that are known one by one, and those that samples stand for.

use crate::{
    block::Kind,
    estimate::{Measure, Samples},
    exact::{Exact, float},
    unseen::Unseen,
};

/// Some blocks together.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    exact: Exact,
    sampled: Option<Box<Samples>>,
    unseen: Unseen,
}

impl Exact {
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
        let sampled = sampled.filter(|s| s.seen() > 0).map(|s| Box::new(*s));
        Self { exact, sampled, unseen: Unseen::default() }
    }

    /// And there may be so much of which no sample was seen.
    pub fn beside(self, unseen: Unseen) -> Self {
        Self { unseen, ..self }
    }

    /// So many blocks of one size, each of them known.
    pub fn exact(size: u64, blocks: u64) -> Self {
        let exact = Exact { bytes: size.saturating_mul(blocks), count: blocks };
        Self { exact, ..Self::default() }
    }

    /// Of so many sampled blocks of one size.
    #[cfg(any(test, feature = "simulation"))]
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
        self.unseen = self.unseen.max(other.unseen);
    }

    /// Adds what was summed up elsewhere.
    pub(crate) fn take(&mut self, exact: &Exact, sampled: Option<&Samples>, unseen: Unseen) {
        self.exact.merge(exact);
        if let Some(more) = sampled.filter(|more| more.seen() > 0) {
            self.sampled.get_or_insert_default().merge(more);
        }
        self.unseen = self.unseen.max(unseen);
    }

    /// The bytes, without the interval.
    pub fn bytes(&self) -> f64 {
        float(self.exact.bytes) + self.sampled.as_ref().map_or(0.0, |sum| sum.bytes())
    }

    /// The sum with its intervals.
    pub fn measure(&self) -> Measure {
        let nothing = Samples::default();
        self.exact.and(self.sampled.as_deref().unwrap_or(&nothing).measure(self.unseen))
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
