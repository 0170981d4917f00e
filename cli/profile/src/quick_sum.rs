//! The bytes of a [`Sum`], without what its interval is made of: of very many sums that are only put in order.
//!
//! [`Sum`]: crate::Sum

use crate::{estimate::Samples, exact::Exact, exact::float, reversible_sum::Wide};

/// Bytes of some blocks, and how many records tell of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuickSum {
    exact: u64,
    sampled: Wide,
    records: u64,
}

impl QuickSum {
    /// Adds what was summed up elsewhere.
    pub(crate) fn take(&mut self, exact: &Exact, sampled: Option<&Samples>) {
        self.exact = self.exact.saturating_add(exact.bytes);
        self.records = self.records.saturating_add(exact.count);
        if let Some(more) = sampled.filter(|more| more.seen() > 0) {
            self.sampled.add(more.bytes());
            self.records = self.records.saturating_add(more.seen());
        }
    }

    /// The bytes: those of the sum of the same blocks, to the last digit.
    pub fn bytes(&self) -> f64 {
        float(self.exact) + self.sampled.value()
    }

    /// The records behind it.
    pub fn records(&self) -> u64 {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use crate::{QuickSum, Sum, block::Kind, row::Flow, row::Tally};

    #[test]
    fn it_is_the_sum_to_the_last_digit() {
        let (mut quick, mut whole) = (QuickSum::default(), Sum::default());
        for number in 0..1000 {
            let mut tally = Tally::default();
            let interval = if number % 3 == 0 { 1 } else { 4096 };
            for size in 0..number % 7 {
                tally.add(Flow::Live, &Kind::new(crate::RowId(1), 1 + size * number, interval));
            }
            tally.add_bytes_to(Flow::Live, &mut quick);
            tally.add_to(Flow::Live, &mut whole);
            assert_eq!(quick.bytes().to_bits(), whole.bytes().to_bits());
            assert_eq!(quick.records(), whole.records());
        }
        assert!(quick.records() > 1000);
    }
}
