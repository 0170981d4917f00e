//! Figures of a session as it is now: by how much memory grows, how fast it is allocated, what is resident,
//! and what of that no block and no mapping explains.
//!
//! Growth and rates are differences of two moments. Both share most of their samples, and are taken for
//! independent: the intervals are rather too wide, never too narrow.

use heapattach_ledger::{Ledger, Metric, Moment};
use heapattach_profile::{Estimate, Range};
use serde::Serialize;

use crate::weight::difference;

/// Growth is told of this time, or of what there is.
pub const GROWTH_MS: u64 = 300_000;
/// The allocation rate is that of this time, or of what there is.
pub const RATE_MS: u64 = 10_000;
/// Of a shorter time there is neither.
const LEAST_MS: u64 = 1000;

/// The figures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Current {
    /// Milliseconds since counting began.
    pub at_ms: u64,
    /// Bytes in use, of blocks allocated since the attach.
    pub live: Range,
    /// The same, blocks.
    pub live_blocks: Range,
    /// By how much blocks in use and what the program mapped itself grew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_per_minute: Option<Change>,
    /// How much was allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_per_second: Option<Change>,
    /// Bytes mapped since the attach, and still, those of allocators too.
    pub mapped: u64,
    /// Resident memory of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Anonymous resident memory that no block or mapping since the attach explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Range>,
    /// Records that found no room.
    pub dropped: u64,
}

/// A change in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Bytes in the unit of time, with their interval.
    #[serde(flatten)]
    pub bytes: Range,
    /// The time that it is told of.
    pub over_ms: u64,
}

impl Current {
    /// Of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        let every = ledger.about.every;
        let live = ledger.total.measure(Metric::Live);
        let last = ledger.moments.last();
        Self {
            at_ms: ledger.about.lasted_ms.max(last.map_or(0, |moment| moment.at_ms)),
            live: live.bytes.into(),
            live_blocks: live.count.into(),
            growth_per_minute: growth_per_minute(&ledger.moments, every),
            allocated_per_second: allocated_per_second(&ledger.moments, every),
            mapped: ledger.total.mapped_live,
            resident: resident(&ledger.moments),
            unseen: unseen(&ledger.moments, every).map(Range::from),
            dropped: dropped(ledger),
        }
    }
}

/// By how much blocks in use and what the program mapped itself grew, over the last five minutes; `every` is
/// the mean distance between samples.
pub fn growth_per_minute(moments: &[Moment], every: u64) -> Option<Change> {
    change(moments, GROWTH_MS, 60.0, |moment| moment.held(every).plus(own_mapped(moment)))
}

/// How much was allocated a second, over the last ten.
pub fn allocated_per_second(moments: &[Moment], every: u64) -> Option<Change> {
    change(moments, RATE_MS, 1.0, |moment| moment.asked(every))
}

/// Resident memory when it was last known.
pub fn resident(moments: &[Moment]) -> Option<u64> {
    moments.iter().rev().find_map(|moment| moment.rss)
}

/// Anonymous resident memory that no block or mapping since the attach explains.
pub fn unseen(moments: &[Moment], every: u64) -> Option<Estimate> {
    let moment = moments.iter().rev().find(|moment| moment.anonymous.is_some())?;
    let seen = moment.held(every).plus(own_mapped(moment));
    let all = float(moment.anonymous?);
    let rest = |seen: f64| (all - seen).max(0.0);
    Some(Estimate { value: rest(seen.value), low: rest(seen.high), high: rest(seen.low) })
}

/// Records of blocks and of frees that found no room.
pub fn dropped(ledger: &Ledger) -> u64 {
    let loss = &ledger.about.loss;
    [loss.blocks, loss.frees, loss.samples].into_iter().fold(0, u64::saturating_add)
}

/// The difference between two moments `window_ms` apart, or the first and the last, in `unit` seconds.
fn change(
    moments: &[Moment],
    window_ms: u64,
    unit: f64,
    of: impl Fn(&Moment) -> Estimate,
) -> Option<Change> {
    let last = moments.last()?;
    let first =
        moments.iter().find(|moment| moment.at_ms.saturating_add(window_ms) >= last.at_ms)?;
    let over_ms = last.at_ms.saturating_sub(first.at_ms);
    let Estimate { value, low, high } = difference(of(last), of(first));
    let scale = unit * 1000.0 / float(over_ms);
    let bytes = Range { value: value * scale, low: low * scale, high: high * scale };
    (over_ms >= LEAST_MS).then_some(Change { bytes, over_ms })
}

fn own_mapped(moment: &Moment) -> f64 {
    float(moment.own_mapped.unwrap_or(0))
}

#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: u64, live: f64, own: u64) -> Moment {
        Moment { at_ms, live, allocated: 2.0 * live, own_mapped: Some(own), ..Moment::default() }
    }

    #[test]
    fn growth_is_that_of_the_last_five_minutes() {
        let moments = [moment(0, 1e9, 0), moment(100_000, 0.0, 0), moment(400_000, 3e6, 6_000_000)];
        let bytes = Range { value: 9e6 / 5.0, low: 9e6 / 5.0, high: 9e6 / 5.0 };
        assert_eq!(growth_per_minute(&moments, 1), Some(Change { bytes, over_ms: 300_000 }));
        assert_eq!(growth_per_minute(&moments[..1], 1), None);
    }

    #[test]
    fn a_rate_of_samples_has_an_interval() {
        let moments = [moment(0, 0.0, 0), moment(2000, 1e6, 0)];
        let rate = allocated_per_second(&moments, 10_000).unwrap();
        assert_eq!((rate.bytes.value, rate.over_ms), (1e6, 2000));
        assert!(rate.bytes.low < 0.95e6 && rate.bytes.high > 1.05e6, "{rate:?}");
    }

    #[test]
    fn what_is_older_than_the_attach_is_not_seen() {
        let mut moments = [moment(0, 1e6, 500_000)];
        moments[0].anonymous = Some(5_000_000);
        assert_eq!(unseen(&moments, 1).map(|unseen| unseen.value), Some(3.5e6));
        moments[0].anonymous = Some(1);
        assert_eq!(unseen(&moments, 1).map(|unseen| unseen.value), Some(0.0));
        moments[0].anonymous = None;
        assert_eq!(unseen(&moments, 1), None);
    }
}
