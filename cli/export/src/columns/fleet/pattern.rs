//! A recording whose time is stretched to a day: what all processes of a service do.

use std::{collections::BTreeMap, convert::Infallible, ops::Range, time::Duration};

use heapattach_ledger::{Ledger, Metric};

use super::super::{Labels, Session, each_table};
use crate::parquet::Value;

/// A day, in milliseconds.
const DAY_MS: u64 = 86_400_000;
/// More stacks than a process has rows of, so that not all have the same.
const STACKS: usize = 40;
/// What a row of sums has before its values.
pub const HEAD: usize = 6;
/// Values of a row: of four metrics bytes and blocks, each with the ends of its interval.
pub const VALUES: usize = 24;

/// A stack from interval to interval.
pub struct Series {
    /// Which; 0 is all others.
    pub stack: i64,
    /// Its values.
    pub values: Vec<[i64; VALUES]>,
}

/// What the processes of a service do.
pub struct Pattern {
    /// Of all stacks, the others last.
    pub series: Vec<Series>,
    /// When each interval begins, since midnight, and how long it is.
    pub intervals: Vec<[i64; 2]>,
    /// The rows of the tables of code, and of the session.
    pub tables: BTreeMap<&'static str, Vec<Vec<Value>>>,
}

impl Pattern {
    /// Of a recording: `whole` is all of it, `part` what happened in a time.
    pub fn of(whole: &Ledger, mut part: impl FnMut(Range<Duration>) -> Ledger) -> Self {
        let lasted = Duration::from_millis(whole.about.lasted_ms).as_secs_f64();
        let mut whole = whole.clone();
        (whole.about.began, whole.about.lasted_ms) = (0, DAY_MS);
        let shrink = |time: Duration| match time.as_millis() <= u128::from(DAY_MS) {
            true => Duration::from_secs_f64(time.as_secs_f64() / 86_400.0 * lasted),
            false => time,
        };
        let mut part = |time: Range<Duration>| part(shrink(time.start)..shrink(time.end));
        let labels = Labels {
            host: "",
            service: None,
            stacks: STACKS,
            metric: Metric::Live,
            is_slot: false,
        };
        let mut tables: BTreeMap<&'static str, Vec<Vec<Value>>> = BTreeMap::new();
        let session = Session { whole: &whole, part: &mut part, marks: &[] };
        let kept: Result<(), Infallible> =
            each_table(session, &labels, &mut |_, table, _, rows| {
                let kept = tables.entry(table.name).or_default();
                let put = rows(&mut |row| {
                    kept.push(row);
                    Ok(())
                });
                debug_assert!(put.is_ok(), "memory takes all rows");
                Ok(())
            });
        kept.unwrap_or_else(|never| match never {});
        let sums = tables.remove("sums").unwrap_or_default();
        Self { series: series(&sums), intervals: intervals(&sums), tables }
    }
}

fn series(sums: &[Vec<Value>]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in sums {
        let numbers = row.iter().map(number);
        let (stack, mut values) = (number(&row[5]), [0; VALUES]);
        values.iter_mut().zip(numbers.skip(HEAD)).for_each(|(value, number)| *value = number);
        match all.iter_mut().find(|one| one.stack == stack) {
            Some(one) => one.values.push(values),
            None => all.push(Series { stack, values: vec![values] }),
        }
    }
    all
}

fn intervals(sums: &[Vec<Value>]) -> Vec<[i64; 2]> {
    let of_others = sums.iter().filter(|row| number(&row[5]) == 0);
    of_others.map(|row| [number(&row[3]), number(&row[4])]).collect()
}

/// Texts are none.
pub fn number(value: &Value) -> i64 {
    match value {
        Value::Number(number) => *number,
        Value::Text(_) => 0,
    }
}
