//! What stacks had in use and allocated, interval by interval.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_profile::{Estimate, Measure};

use super::{Labels, Put, identity, identity::Identity, interval::Interval};
use crate::{
    apportion::{self, apportion},
    parquet::{Kind, Value},
};

use Kind::{Number, Text, Time};

/// A row is a stack and an interval; stack 0 is all others. `freed` and `survived` are of what was
/// allocated in the interval.
pub const SCHEMA: [(&str, Kind); 30] = [
    ("session", Number),
    ("host", Text),
    ("pid", Number),
    ("start", Time),
    ("duration_ms", Number),
    ("stack", Number),
    ("live_bytes", Number),
    ("live_bytes_low", Number),
    ("live_bytes_high", Number),
    ("live_blocks", Number),
    ("live_blocks_low", Number),
    ("live_blocks_high", Number),
    ("allocated_bytes", Number),
    ("allocated_bytes_low", Number),
    ("allocated_bytes_high", Number),
    ("allocated_blocks", Number),
    ("allocated_blocks_low", Number),
    ("allocated_blocks_high", Number),
    ("freed_bytes", Number),
    ("freed_bytes_low", Number),
    ("freed_bytes_high", Number),
    ("freed_blocks", Number),
    ("freed_blocks_low", Number),
    ("freed_blocks_high", Number),
    ("survived_bytes", Number),
    ("survived_bytes_low", Number),
    ("survived_bytes_high", Number),
    ("survived_blocks", Number),
    ("survived_blocks_low", Number),
    ("survived_blocks_high", Number),
];

/// A stack after the other, each from interval to interval: what follows one another then is nearly the same. By
/// session first, where a file has more than one.
pub const ORDER: [usize; 3] = [0, 5, 3];

/// The stacks that have rows of their own, by their numbers: the largest by a metric, then at the peak.
/// `numbers` are those of the stacks of the ledger.
pub fn chosen(whole: &Ledger, numbers: &[i64], labels: &Labels<'_>) -> Vec<i64> {
    let metrics = [labels.metric, Metric::Peak];
    let mut sizes: HashMap<i64, [f64; 2]> = HashMap::new();
    for row in &whole.rows {
        if let Some(number) = numbers.get(row.stack as usize) {
            let sums = sizes.entry(*number).or_default().iter_mut().zip(metrics);
            sums.for_each(|(sum, metric)| *sum += row.heap.bytes(metric.into()));
        }
    }
    let mut stacks: Vec<(i64, [f64; 2])> = sizes.into_iter().collect();
    let order = |(a, a_sizes): &(i64, [f64; 2]), (b, b_sizes): &(i64, [f64; 2])| {
        let by = |at: usize| b_sizes[at].total_cmp(&a_sizes[at]);
        by(0).then_with(|| by(1)).then(a.cmp(b))
    };
    // There may be a million, and some are wanted.
    if labels.stacks < stacks.len() {
        stacks.select_nth_unstable_by(labels.stacks, order);
        stacks.truncate(labels.stacks);
    }
    stacks.sort_unstable_by(order);
    stacks.into_iter().map(|(stack, _)| stack).collect()
}

/// The rows of an interval: `until` is all until its end, `within` what happened in it. Answers what was in use at its
/// end, of the chosen stacks and of all others.
pub fn rows(
    identity: &Identity,
    interval: &Interval,
    until: &Ledger,
    within: &Ledger,
    chosen: &[i64],
    put: Put<'_>,
) -> io::Result<Vec<Cell>> {
    let of_until = ByStack::of(until, chosen);
    let of_within = (!std::ptr::eq(until, within)).then(|| ByStack::of(within, chosen));
    let of_within = of_within.as_ref().unwrap_or(&of_until);
    let columns = [
        of_until.column(Metric::Live),
        of_within.column(Metric::Allocated),
        of_within.column(Metric::Freed),
        of_within.column(Metric::Live),
    ];
    // A stack has a row in every interval, with zeros, too: a query can take the first and the last.
    for (at, stack) in chosen.iter().chain([&0]).enumerate() {
        let values: Vec<i64> = columns.iter().flat_map(|column| column[at]).flatten().collect();
        let mut row: Vec<Value> = vec![
            identity.session.into(),
            identity.host.as_str().into(),
            identity.pid.into(),
            interval.start_ms.into(),
            interval.lasted_ms.into(),
            (*stack).into(),
        ];
        row.extend(values.into_iter().map(Value::Number));
        put(row)?;
    }
    let [live, ..] = columns;
    Ok(live)
}

/// Bytes and blocks: the value, and the ends of its 95 % interval.
pub type Cell = [[i64; 3]; 2];

/// The rows of the chosen stacks, of all threads together, and those of all others.
struct ByStack<'a> {
    ledger: &'a Ledger,
    chosen: Vec<Row>,
    others: Row,
}

impl<'a> ByStack<'a> {
    fn of(ledger: &'a Ledger, chosen: &[i64]) -> Self {
        let places: HashMap<i64, usize> = chosen.iter().copied().zip(0..).collect();
        let places = identity::stacks(ledger).map(|number| places.get(&number).copied());
        let places: Vec<Option<usize>> = places.collect();
        let (mut own, mut others) = (vec![Row::default(); chosen.len()], Row::default());
        for row in &ledger.rows {
            match places.get(row.stack as usize) {
                Some(Some(place)) => own[*place].merge(row),
                Some(None) => others.merge(row),
                None => {}
            }
        }
        Self { ledger, chosen: own, others }
    }

    /// A metric of the chosen stacks and, as the last, of all others. The values together are the rounded
    /// total.
    fn column(&self, metric: Metric) -> Vec<Cell> {
        let own: Vec<Measure> = self.chosen.iter().map(|row| row.measure(metric)).collect();
        let (others, total) = (self.others.measure(metric), self.ledger.total.measure(metric));
        let bytes = parts(own.iter().map(|m| m.bytes).collect(), others.bytes, total.bytes);
        let blocks = parts(own.iter().map(|m| m.count).collect(), others.count, total.count);
        bytes.into_iter().zip(blocks).map(|(bytes, blocks)| [bytes, blocks]).collect()
    }
}

fn parts(mut own: Vec<Estimate>, others: Estimate, total: Estimate) -> Vec<[i64; 3]> {
    let told: f64 = own.iter().map(|estimate| estimate.value).sum();
    // The total has what found no place among the rows, too.
    let rest = (total.value - told).max(0.0);
    let has_more = rest > others.value * (1.0 + 1e-9) + 0.5;
    let high = if has_more { others.high.max(total.high) } else { others.high };
    own.push(Estimate { value: rest, low: others.low.min(rest), high: high.max(rest) });
    let values: Vec<f64> = own.iter().map(|estimate| estimate.value).collect();
    let values = apportion(&values, total.value);
    let cell = |(value, of): (u64, &Estimate)| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        [value, whole(of.low.floor()).min(value), whole(of.high.ceil()).max(value)]
    };
    values.into_iter().zip(&own).map(cell).collect()
}

/// What is no number is 0.
pub fn whole(number: f64) -> i64 {
    let number = apportion::whole(number.clamp(0.0, apportion::MOST));
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The places in the ledger of these stacks; of two that are the same the first. `numbers` are those of all.
pub fn places(numbers: &[i64], chosen: &HashSet<i64>) -> Vec<(i64, u32)> {
    let mut seen = HashSet::new();
    let numbers = numbers.iter().copied().zip(0..);
    numbers.filter(|(number, _)| chosen.contains(number) && seen.insert(*number)).collect()
}
