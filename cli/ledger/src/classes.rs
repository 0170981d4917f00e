//! How many blocks there are of each magnitude, and how sure that is: histograms keep the numbers, and
//! what is known besides gives a bound for the intervals.

use super::{Histogram, Ledger, Metric};
use heapattach_profile::{Bound, Estimate};

/// Blocks allocated, by the bucket of their size.
///
/// Blocks of one class are alike to a factor of two, and so is what one of them stands for.
pub fn sizes(ledger: &Ledger) -> Vec<Estimate> {
    let buckets = ledger.total.sizes.buckets().into_iter().enumerate();
    let of = |(bucket, blocks): (usize, f64)| {
        Bound::blocks(blocks, Histogram::range(bucket).0, ledger.about.every).estimate()
    };
    buckets.map(of).collect()
}

/// Blocks freed, by the bucket of their lifetime.
///
/// That tells nothing of their sizes; the rows do. Those that one stack gave back are not smaller
/// than the smallest that it asked for, and some of those whose moments its row has.
pub fn lifetimes(ledger: &Ledger) -> Vec<Estimate> {
    let every = ledger.about.every;
    let mut bounds = vec![Bound::default(); ledger.total.lifetimes.buckets().len()];
    let mut told = vec![0.0; bounds.len()];
    for row in &ledger.rows {
        let smallest = row.sizes.buckets().into_iter().position(|blocks| blocks > 0.0);
        let least = Histogram::range(smallest.unwrap_or(0)).0;
        let of_row = row.lifetimes.buckets().into_iter().enumerate();
        let freed = row.sum(Metric::Freed);
        for (bucket, blocks) in of_row.filter(|(_, blocks)| *blocks > 0.0) {
            let bound = Bound::blocks(blocks, least, every).among(&freed);
            if let (Some(sum), Some(known)) = (bounds.get_mut(bucket), told.get_mut(bucket)) {
                sum.merge(&bound);
                *known += blocks;
            }
        }
    }
    let all = ledger.total.lifetimes.buckets();
    let estimates = bounds.iter().zip(told).zip(all).map(|((bound, known), blocks)| {
        let Estimate { low, high, .. } = bound.estimate();
        // What found no place among the rows is there, too.
        let (value, beyond) = (blocks.max(0.0), (blocks - known).max(0.0));
        Estimate { value, low: (low + beyond).min(value), high: (high + beyond).max(value) }
    });
    estimates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use heapattach_profile::simulation::{Known, Run, run};

    /// Mean bytes between the samples of a run.
    const EVERY: u64 = 16_384;

    fn ledger(run: &Run) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.about.every = EVERY;
        for row in run.profile.sheet().rows.all().iter().filter(|row| row.is_known()) {
            let row = Row {
                heap: row.heap.clone(),
                sizes: row.sizes.clone(),
                lifetimes: row.lifetimes.clone(),
                ..Row::default()
            };
            ledger.total.merge(&row);
            ledger.rows.push(row);
        }
        ledger
    }

    /// How often, and how much wider than with the true variance.
    #[derive(Debug, Default)]
    struct Score {
        cases: f64,
        covered: f64,
        width: f64,
    }

    impl Score {
        /// Adds the classes of which some ten samples or more are expected, or all others. Where
        /// every block is known there is nothing to be wrong about.
        fn add(&mut self, estimates: &[Estimate], truth: &[Known], is_rare: bool) {
            for (bucket, known) in truth.iter().enumerate().filter(|(_, known)| known.truth > 0.0) {
                let deviation = known.variance.sqrt();
                if deviation == 0.0 || is_rare != (known.truth < 3.0 * deviation) {
                    continue;
                }
                let Estimate { low, high, .. } = estimates.get(bucket).copied().unwrap_or_default();
                let slack = 1e-6 * known.truth;
                self.cases += 1.0;
                let holds = (low - slack..=high + slack).contains(&known.truth);
                self.covered += f64::from(u8::from(holds));
                self.width += (high - low) / (2.0 * 1.96 * deviation);
            }
        }

        fn expect(&self, what: &str, least: f64, widest: f64) {
            let (covered, width) = (100.0 * self.covered / self.cases, self.width / self.cases);
            println!("{what}: {} cases, covered {covered:.2} %, width {width:.3}", self.cases);
            assert!(covered >= least, "{what}: {covered:.2} % covered");
            assert!(width <= widest, "{what}: {width:.3} times the width in theory");
        }
    }

    #[test]
    fn intervals_of_classes_hold_the_truth_at_least_as_often_as_they_say() {
        let [mut by_size, mut rare, mut by_lifetime] = [(); 3].map(|()| Score::default());
        for seed in 1..=400 {
            let run = run(seed, &[EVERY]);
            let ledger = ledger(&run);
            by_size.add(&sizes(&ledger), &run.sizes, false);
            rare.add(&sizes(&ledger), &run.sizes, true);
            by_lifetime.add(&lifetimes(&ledger), &run.lifetimes, false);
        }
        by_size.expect("sizes", 94.0, 1.7);
        // Where nothing was seen there may be as much as could have been missed. Next to the true
        // deviation, which is that of the few blocks there are, this is as wide as you like.
        rare.expect("sizes that are hardly sampled", 94.0, f64::INFINITY);
        by_lifetime.expect("lifetimes", 94.0, 1.7);
    }

    #[test]
    fn where_every_block_is_recorded_classes_are_exact() {
        let ledger = crate::sample::ledger();
        for estimate in sizes(&ledger).into_iter().chain(lifetimes(&ledger)) {
            assert_eq!(estimate.low, estimate.high, "{estimate:?}");
        }
    }
}
