//! What stacks had in use at both ends of a session: a few rows, where `sums` has one for each interval. What grows
//! over many machines is asked of these.

use std::io;

use super::{Put, identity::Identity, interval::Interval, sums::Cell};
use crate::parquet::{
    Kind::{self, Number, Text, Time},
    Value,
};

/// A row is a stack; stack 0 is all others. `first` and `last` are in use at the end of the first and of the last
/// interval, which may be the same.
pub const SCHEMA: [(&str, Kind); 17] = [
    ("session", Number),
    ("host", Text),
    ("stack", Number),
    ("first_start", Time),
    ("last_start", Time),
    ("first_bytes", Number),
    ("first_bytes_low", Number),
    ("first_bytes_high", Number),
    ("first_blocks", Number),
    ("first_blocks_low", Number),
    ("first_blocks_high", Number),
    ("last_bytes", Number),
    ("last_bytes_low", Number),
    ("last_bytes_high", Number),
    ("last_blocks", Number),
    ("last_blocks_low", Number),
    ("last_blocks_high", Number),
];

/// Both ends, while intervals come by.
pub struct Ends<'a> {
    identity: &'a Identity,
    chosen: &'a [i64],
    first: Interval,
    last: Interval,
    /// What was in use then.
    live: [Vec<Cell>; 2],
}

impl<'a> Ends<'a> {
    /// Of these stacks, and of a session with these intervals, of which there is one at least.
    pub fn new(identity: &'a Identity, chosen: &'a [i64], intervals: &[Interval]) -> Self {
        let none = Interval { start_ms: identity.began_ms, lasted_ms: 0, is_last: true };
        let of = |interval: Option<&Interval>| interval.copied().unwrap_or(none);
        let (first, last) = (of(intervals.first()), of(intervals.last()));
        Self { identity, chosen, first, last, live: Default::default() }
    }

    /// What was in use at the end of an interval, in the order of the stacks.
    pub fn note(&mut self, interval: &Interval, live: Vec<Cell>) {
        if *interval == self.first {
            self.live[0].clone_from(&live);
        }
        if *interval == self.last {
            self.live[1] = live;
        }
    }

    /// The rows.
    pub fn rows(&self, put: Put<'_>) -> io::Result<()> {
        let Self { identity, chosen, first, last, live: [begin, end] } = self;
        let stacks = chosen.iter().chain([&0]).zip(begin).zip(end);
        for ((stack, begin), end) in stacks {
            let mut row: Vec<Value> = vec![
                identity.session.into(),
                identity.host.as_str().into(),
                (*stack).into(),
                first.start_ms.into(),
                last.start_ms.into(),
            ];
            row.extend([begin, end].into_iter().flatten().flatten().copied().map(Value::Number));
            put(row)?;
        }
        Ok(())
    }
}
