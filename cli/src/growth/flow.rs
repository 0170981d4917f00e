//! What came and went of each size, since before the attach: exact, out of the moments of a session.

use std::ops::RangeInclusive;

use heapattach_abi::flow::{CLASSES, chunk_of, class, least};

use super::Trend;
use crate::{ledger::Moment, profile::Histogram};

/// Classes of size.
pub type Classes = RangeInclusive<usize>;

/// Counts of blocks by class, at moments.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    moments: &'a [Moment],
}

impl<'a> Flow<'a> {
    /// Out of these; `None` if nobody counted.
    pub fn of(moments: &'a [Moment]) -> Option<Self> {
        moments.iter().any(|moment| moment.flow.is_some()).then_some(Self { moments })
    }

    /// Bytes that more came than went of some classes, at times in seconds since counting began.
    pub fn net(&self, classes: &Classes) -> Vec<(f64, f64)> {
        self.sums(classes, |[came, went]| came as f64 - went as f64)
    }

    /// Bytes that came in all.
    pub fn asked(&self, classes: &Classes) -> f64 {
        let came = self.sums(classes, |[came, _]| came as f64);
        came.last().map_or(0.0, |(_, bytes)| *bytes)
    }

    /// Blocks that came in all, of any size.
    pub fn blocks(&self) -> f64 {
        let last = self.moments.iter().rev().find_map(|moment| moment.flow.as_ref());
        last.map_or(0.0, |flow| flow.iter().map(|[_, came, _]| *came as f64).sum())
    }

    /// Growth of everything.
    pub fn trend(&self) -> Option<Trend> {
        Trend::of(&self.net(&(0..=CLASSES - 1)))
    }

    fn sums(&self, classes: &Classes, of: impl Fn([u64; 2]) -> f64) -> Vec<(f64, f64)> {
        let told = self.moments.iter().filter_map(|moment| {
            let flow = moment.flow.as_ref()?;
            let own = flow.iter().filter(|[number, ..]| {
                usize::try_from(*number).is_ok_and(|number| classes.contains(&number))
            });
            let sum = own.map(|[number, came, went]| of([*came, *went]) * middle(*number)).sum();
            Some((moment.at_ms as f64 / 1000.0, sum))
        });
        // The counts begin with the hooks.
        std::iter::once((0.0, 0.0)).chain(told.filter(|(at, _)| *at > 0.0)).collect()
    }
}

/// What a request of so many bytes takes of the heap.
pub fn taken(request: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = request.ceil() as u64;
    chunk_of(whole) as f64
}

/// The class of such a request.
pub fn class_of(request: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let chunk = taken(request) as u64;
    class(chunk)
}

/// The classes of requests between these buckets of a histogram.
pub fn classes_of(buckets: RangeInclusive<usize>) -> Classes {
    let (first, last) = (Histogram::range(*buckets.start()).0, Histogram::range(*buckets.end()).1);
    class(chunk_of(first))..=class(chunk_of(last))
}

/// A chunk in the middle of a class.
fn middle(number: u64) -> f64 {
    let number = usize::try_from(number).unwrap_or(CLASSES).min(CLASSES - 1);
    let (low, high) = (least(number), least(number + 1));
    // Of a class that is a single size that size.
    if high - low <= heapattach_abi::flow::STEP { low as f64 } else { (low + high) as f64 / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_session_counts_when_it_goes() {
        let moment = |at_ms, flow| Moment { at_ms, flow: Some(flow), ..Moment::default() };
        let moments = [
            moment(1000, vec![[4, 10, 30], [64, 1, 0]]),
            Moment { at_ms: 1500, ..Moment::default() },
            moment(2000, vec![[4, 20, 30], [u64::MAX, u64::MAX, 0]]),
        ];
        let flow = Flow::of(&moments).unwrap();
        assert_eq!(flow.net(&(4..=4)), [(0.0, 0.0), (1.0, -1280.0), (2.0, -640.0)]);
        assert_eq!(flow.asked(&(0..=4)), 1280.0);
        assert!(Flow::of(&moments[1..2]).is_none());
    }

    #[test]
    fn a_request_has_the_class_of_its_chunk() {
        assert_eq!(class_of(24.0), 2);
        assert_eq!(class_of(f64::NAN), 2);
        assert_eq!(classes_of(7..=7), class_of(64.0)..=class_of(127.0));
    }
}
