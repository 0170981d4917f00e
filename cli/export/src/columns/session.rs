//! The session itself, and its marks.

use std::io;

use heapattach_ledger::{Ledger, Mark};
use heapattach_verdict::current;

use super::{Labels, Put, identity::Identity, interval::Interval, sums};
use crate::{
    harmless, notes,
    parquet::{
        Kind::{self, Number, Text, Time},
        Value,
    },
};

/// One row. `dropped` are records of all kinds, `not_seen` what is missing in words; `rss_bytes` is 0
/// where it is not known; `first_start` and `last_start` are those of the first and the last interval; `unseen_bytes`
/// is -1 where it is not known.
pub const SESSION: [(&str, Kind); 18] = [
    ("session", Number),
    ("host", Text),
    ("pid", Number),
    ("command", Text),
    ("build", Text),
    ("start", Time),
    ("duration_ms", Number),
    ("every", Number),
    ("outcome", Text),
    ("dropped", Number),
    ("missed_frees", Number),
    ("not_seen", Text),
    ("rss_bytes", Number),
    ("version", Text),
    ("first_start", Time),
    ("last_start", Time),
    ("unseen_bytes", Number),
    ("is_slot", Number),
];

/// A row is a mark.
pub const MARKS: [(&str, Kind); 3] = [("session", Number), ("at", Time), ("why", Text)];

/// The row of a session with these intervals.
pub fn row(
    identity: &Identity,
    ledger: &Ledger,
    intervals: &[Interval],
    labels: &Labels<'_>,
) -> Vec<Value> {
    let about = &ledger.about;
    let loss = about.loss;
    let lost = [loss.blocks, loss.frees, loss.samples, loss.beyond_limit, loss.torn];
    let dropped = lost.into_iter().fold(0, u64::saturating_add);
    let rss = ledger.moments.iter().rev().find_map(|moment| moment.rss).unwrap_or(0);
    let missing: Vec<_> = notes::gaps(about).iter().map(|note| harmless::line(note)).collect();
    let unseen = current::unseen(&ledger.moments, about.every);
    let unseen = unseen.map_or(-1, |unseen| sums::whole(unseen.value));
    let start = |of: Option<&Interval>| of.map_or(identity.began_ms, |interval| interval.start_ms);
    vec![
        identity.session.into(),
        identity.host.as_str().into(),
        identity.pid.into(),
        harmless::line_or_none(&about.command).as_str().into(),
        identity.build.as_str().into(),
        identity.began_ms.into(),
        whole(about.lasted_ms),
        whole(about.every.max(1)),
        harmless::line_or_none(about.outcome.text()).as_str().into(),
        whole(dropped),
        whole(loss.missed_frees),
        missing.join("; ").as_str().into(),
        whole(rss),
        harmless::line_or_none(&about.version).as_str().into(),
        start(intervals.first()).into(),
        start(intervals.last()).into(),
        unseen.into(),
        i64::from(labels.is_slot).into(),
    ]
}

/// The rows of marks.
pub fn marks(identity: &Identity, marks: &[Mark], put: Put<'_>) -> io::Result<()> {
    marks.iter().try_for_each(|mark| {
        let since = i64::try_from(mark.at_ms).unwrap_or(i64::MAX);
        let at = identity.began_ms.saturating_add(since);
        put(vec![identity.session.into(), at.into(), harmless::line(&mark.why).as_str().into()])
    })
}

fn whole(number: u64) -> Value {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}
