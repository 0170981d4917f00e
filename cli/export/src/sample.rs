//! The rows of a ledger in whole numbers: what formats without estimates tell.

use super::apportion::apportion;
use heapattach_ledger::{Ledger, Metric};

/// Stands for the stack of what found no place among the rows.
pub const REST: &str = "[stacks not kept]";

/// Some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The bytes requested.
    pub bytes: u64,
    /// The number of blocks.
    pub blocks: u64,
}

/// What a stack allocated in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `None`: [`REST`].
    pub stack: Option<u32>,
    /// The thread.
    pub thread: u32,
    amounts: [Amount; Metric::ALL.len()],
}

impl Amount {
    /// The sum of both amounts.
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            blocks: self.blocks.saturating_add(other.blocks),
        }
    }

    /// What is left without another; never less than nothing.
    pub fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            blocks: self.blocks.saturating_sub(other.blocks),
        }
    }
}

impl Sample {
    /// How much of it.
    pub fn amount(&self, metric: Metric) -> Amount {
        self.amounts[metric as usize]
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in self.amounts.iter_mut().zip(&other.amounts) {
            *sum = sum.plus(*more);
        }
    }
}

/// All rows that allocated something, in their order, and what the total has beyond them.
pub fn samples(ledger: &Ledger) -> Vec<Sample> {
    let row = |row: &heapattach_ledger::Row| Sample {
        stack: Some(row.stack),
        thread: row.thread,
        amounts: Default::default(),
    };
    let rest = Sample { stack: None, thread: 0, amounts: Default::default() };
    let mut samples: Vec<_> = ledger.rows.iter().map(row).chain([rest]).collect();
    for metric in Metric::ALL {
        let measures: Vec<_> = ledger.rows.iter().map(|row| row.measure(metric)).collect();
        let total = ledger.total.measure(metric);
        let bytes = measures.iter().map(|measure| measure.bytes.value);
        let blocks = measures.iter().map(|measure| measure.count.value);
        let bytes = with_rest(bytes.collect(), total.bytes.value);
        let blocks = with_rest(blocks.collect(), total.count.value);
        for (sample, (bytes, blocks)) in samples.iter_mut().zip(bytes.into_iter().zip(blocks)) {
            sample.amounts[metric as usize] = Amount { bytes, blocks };
        }
    }
    samples.retain(|sample| sample.amounts != <[Amount; Metric::ALL.len()]>::default());
    samples
}

/// The same without threads: one for each stack, in the order in which stacks come first.
pub fn by_stack(ledger: &Ledger) -> Vec<Sample> {
    let mut merged: Vec<Sample> = Vec::new();
    // By stack, where it is; the last is for what has none.
    let mut places = vec![None; ledger.stacks.count() + 1];
    for sample in samples(ledger) {
        let stack = sample.stack.map_or(usize::MAX, |stack| stack as usize);
        let place = &mut places[stack.min(ledger.stacks.count())];
        let next = u32::try_from(merged.len()).unwrap_or(u32::MAX);
        match merged.get_mut(*place.get_or_insert(next) as usize) {
            Some(sum) => sum.merge(&sample),
            None => merged.push(Sample { thread: 0, ..sample }),
        }
    }
    merged
}

fn with_rest(mut estimates: Vec<f64>, total: f64) -> Vec<u64> {
    let sum: f64 = estimates.iter().sum();
    estimates.push((total - sum).max(0.0));
    apportion(&estimates, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    #[test]
    fn samples_are_what_the_rows_say() {
        let samples = samples(&sample::ledger());
        assert_eq!(samples.len(), 3);
        assert_eq!(samples[0].amount(Metric::Live), Amount { bytes: 64_000, blocks: 1000 });
        assert_eq!(samples[2].amount(Metric::Temporary).blocks, 65_000);
    }

    #[test]
    fn what_found_no_place_among_the_rows_is_told_too() {
        let mut ledger = sample::ledger();
        ledger.total.add(Metric::Live, &Sum::exact(100, 3));
        let samples = samples(&ledger);
        let [.., rest] = &samples[..] else { panic!("no samples") };
        assert_eq!(rest.stack, None);
        assert_eq!(rest.amount(Metric::Live), Amount { bytes: 300, blocks: 3 });
        assert_eq!(rest.amount(Metric::Allocated), Amount::default());
    }

    #[test]
    fn threads_can_be_left_out() {
        let mut ledger = sample::ledger();
        ledger.rows[2].stack = 0;
        let merged = by_stack(&ledger);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].amount(Metric::Allocated).blocks, 71_500);
    }
}
