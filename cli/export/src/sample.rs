//! The rows of a ledger in whole numbers: what formats without estimates tell.

use super::apportion::{apportion, clean, whole};
use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_profile::{Flow, Tally};

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
///
/// Where all sums are whole numbers, as they are where each block was recorded, nothing needs to be
/// apportioned, and no memory for it.
pub fn samples(ledger: &Ledger) -> impl Iterator<Item = Sample> + '_ {
    let columns = Metric::ALL.map(|metric| {
        let flow = metric.into();
        let total = ledger.total.measure(metric);
        [
            Column::new(ledger, total.bytes.value, (Tally::bytes, flow)),
            Column::new(ledger, total.count.value, (Tally::blocks, flow)),
        ]
    });
    let amounts = move |place: usize, row: Option<&Row>| {
        columns.each_ref().map(|[bytes, blocks]| Amount {
            bytes: bytes.at(place, row),
            blocks: blocks.at(place, row),
        })
    };
    let rows = ledger.rows.iter().map(Some).chain([None]).enumerate();
    rows.filter_map(move |(place, row)| {
        let amounts = amounts(place, row);
        let thread = row.map_or(0, |row| row.thread);
        let is_some = amounts.iter().any(|amount| *amount != Amount::default());
        is_some.then_some(Sample { stack: row.map(|row| row.stack), thread, amounts })
    })
}

/// What is asked of a row.
type Number = (fn(&Tally, Flow) -> f64, Flow);

/// A number of each row, and what is told of it.
struct Column {
    number: Number,
    told: Told,
}

enum Told {
    /// The numbers themselves, and that of what the rows lack.
    Whole(u64),
    /// Whole numbers in their place, that of the rest last.
    Apportioned(Vec<u64>),
}

impl Column {
    fn new(ledger: &Ledger, total: f64, number: Number) -> Self {
        let (number_of, flow) = number;
        let (mut sum, mut is_whole) = (0.0, true);
        for row in &ledger.rows {
            let number = number_of(&row.heap, flow);
            is_whole &= clean(number).fract() == 0.0;
            sum += number;
        }
        let rest = (total - sum).max(0.0);
        let told = if is_whole && clean(rest).fract() == 0.0 {
            Told::Whole(whole(clean(rest)))
        } else {
            let numbers = ledger.rows.iter().map(|row| number_of(&row.heap, flow));
            let estimates: Vec<f64> = numbers.chain([rest]).collect();
            Told::Apportioned(apportion(&estimates, total))
        };
        Self { number, told }
    }

    fn at(&self, place: usize, row: Option<&Row>) -> u64 {
        let (number_of, flow) = self.number;
        match (&self.told, row) {
            (Told::Whole(_), Some(row)) => whole(clean(number_of(&row.heap, flow))),
            (Told::Whole(rest), None) => *rest,
            (Told::Apportioned(all), _) => all[place],
        }
    }
}

/// The same without threads: one for each stack, in the order in which stacks come first.
///
/// Where no stack has several rows, as where threads are not told apart, nothing needs to be put together, and
/// no memory for it.
pub fn by_stack(ledger: &Ledger) -> impl Iterator<Item = Sample> + '_ {
    let mut seen = vec![false; ledger.stacks.count()];
    let mut is_new = |row: &Row| {
        let seen = seen.get_mut(row.stack as usize);
        seen.is_some_and(|seen| !std::mem::replace(seen, true))
    };
    let merged = (!ledger.rows.iter().all(&mut is_new)).then(|| merged(ledger));
    let single = merged.is_none().then(|| samples(ledger));
    let single = single.into_iter().flatten().map(|sample| Sample { thread: 0, ..sample });
    merged.into_iter().flatten().chain(single)
}

fn merged(ledger: &Ledger) -> Vec<Sample> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    #[test]
    fn samples_are_what_the_rows_say() {
        let ledger = sample::ledger();
        let samples: Vec<_> = samples(&ledger).collect();
        assert_eq!(samples.len(), 3);
        assert_eq!(samples[0].amount(Metric::Live), Amount { bytes: 64_000, blocks: 1000 });
        assert_eq!(samples[2].amount(Metric::Temporary).blocks, 65_000);
    }

    #[test]
    fn what_found_no_place_among_the_rows_is_told_too() {
        let mut ledger = sample::ledger();
        ledger.total.add(Metric::Live, &Sum::exact(100, 3));
        let samples: Vec<_> = samples(&ledger).collect();
        let [.., rest] = &samples[..] else { panic!("no samples") };
        assert_eq!(rest.stack, None);
        assert_eq!(rest.amount(Metric::Live), Amount { bytes: 300, blocks: 3 });
        assert_eq!(rest.amount(Metric::Allocated), Amount::default());
    }

    #[test]
    fn threads_can_be_left_out() {
        let mut ledger = sample::ledger();
        ledger.rows[2].stack = 0;
        let merged: Vec<_> = by_stack(&ledger).collect();
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].amount(Metric::Allocated).blocks, 71_500);
    }

    #[test]
    fn stacks_of_one_row_each_are_told_without_their_threads() {
        let mut ledger = sample::ledger();
        ledger.total.add(Metric::Live, &Sum::exact(100, 3));
        let single: Vec<_> = by_stack(&ledger).collect();
        assert_eq!(single, merged(&ledger));
        assert_eq!((single.len(), single[3].stack), (4, None));
    }

    #[test]
    fn estimates_are_apportioned_and_add_up_to_their_total() {
        let mut ledger = sample::ledger();
        for (at, row) in ledger.rows.iter_mut().enumerate() {
            row.set(Metric::Live, &Sum::sampled(100 + at as u64, 3, 1000));
        }
        let mut total = Sum::default();
        ledger.rows.iter().for_each(|row| total.merge(&row.sum(Metric::Live)));
        ledger.total.set(Metric::Live, &total);
        let estimate = ledger.total.measure(Metric::Live).bytes.value;
        assert_ne!(estimate.fract(), 0.0);
        let told: u64 = samples(&ledger).map(|sample| sample.amount(Metric::Live).bytes).sum();
        assert_eq!(told, whole(estimate.round()));
    }
}
