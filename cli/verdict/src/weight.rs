//! How much of something there is, and where two ledgers are compared, how much there was before.
//!
//! # The interval of a difference
//!
//! Both ends of both intervals are known, not their variances, and they are not symmetric. Each half
//! of the result is made of the two halves that reach in its direction, as variances add: the square
//! root of the sum of their squares. For symmetric intervals this is the usual sum of variances.
//! It takes the two for independent. Two moments of one session share samples, and there the interval
//! is wider than it had to be; a difference that it calls significant is so all the more.

use serde::Serialize;

use crate::figure::Unit;
use heapattach_profile::{Amount, Estimate, Measure, Range, Sum};

/// What two ledgers hold of one thing; without a comparison, the first of them holds nothing.
#[derive(Clone, Debug, Default)]
pub struct Weight {
    /// Now.
    pub now: Sum,
    /// Before.
    pub before: Sum,
}

/// What is told of a weight.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Now.
    #[serde(flatten)]
    pub amount: Amount,
    /// Its part of all, by the unit asked for.
    pub share: Range,
    /// Where two ledgers are compared.
    #[serde(flatten)]
    pub change: Option<Change>,
}

/// What became different.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Change {
    /// Before.
    pub before: Amount,
    /// The difference.
    pub change: Amount,
    /// The difference by what there was before; not if that was nothing.
    pub relative: Option<f64>,
    /// Whether the difference, by the unit asked for, is more than chance.
    pub is_significant: bool,
}

impl Weight {
    /// Adds a sum to one side.
    pub fn add(&mut self, side: Side, sum: &Sum) {
        self.of(side).merge(sum);
    }

    /// What there is on one side.
    pub fn of(&mut self, side: Side) -> &mut Sum {
        match side {
            Side::Now => &mut self.now,
            Side::Before => &mut self.before,
        }
    }

    /// How important it is: by what it is, or by what became different.
    pub fn rank(&self, unit: Unit, is_change: bool) -> f64 {
        let value = |sum: &Sum| unit.of(&sum.measure()).value;
        let now = value(&self.now);
        let rank = if is_change { (now - value(&self.before)).abs() } else { now };
        // There is an order for all numbers that a file may have.
        if rank.is_nan() { 0.0 } else { rank }
    }

    /// Whether there is anything to tell.
    pub fn is_nothing(&self) -> bool {
        self.now.records() == 0 && self.before.records() == 0
    }

    /// What is told of it, as a part of `total`.
    pub fn figures(&self, total: &Self, unit: Unit, is_change: bool) -> Figures {
        let (now, all) = (self.now.measure(), total.now.measure());
        Figures {
            amount: now.into(),
            share: share(unit.of(&now), unit.of(&all)).into(),
            change: is_change.then(|| self.change(unit)),
        }
    }

    fn change(&self, unit: Unit) -> Change {
        let (now, before) = (self.now.measure(), self.before.measure());
        let change = Measure {
            bytes: difference(now.bytes, before.bytes),
            count: difference(now.count, before.count),
        };
        let (told, past) = (unit.of(&change), unit.of(&before).value);
        Change {
            before: before.into(),
            change: change.into(),
            relative: (past > 0.0).then(|| told.value / past),
            is_significant: told.low > 0.0 || told.high < 0.0,
        }
    }
}

/// One of two ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The later one, or the only one.
    Now,
    /// The one it is compared with.
    Before,
}

/// `now - before`.
pub fn difference(now: Estimate, before: Estimate) -> Estimate {
    let value = now.value - before.value;
    let reach = |one: f64, other: f64| one.hypot(other);
    Estimate {
        value,
        low: value - reach(now.value - now.low, before.high - before.value),
        high: value + reach(now.high - now.value, before.value - before.low),
    }
}

/// A part of a whole that it is in, from 0 to 1. The interval takes the part at one of its ends and
/// the rest at the other: it is rather too wide.
pub fn share(part: Estimate, whole: Estimate) -> Estimate {
    let rest = whole.value - part.value;
    let left = |whole: f64, part: f64| (whole * whole - part * part).max(0.0).sqrt();
    let low = (rest - left(whole.value - whole.low, part.value - part.low)).max(0.0);
    let high = rest + left(whole.high - whole.value, part.high - part.value);
    let ratio = |part: f64, rest: f64| {
        let ratio = part / (part + rest);
        if ratio.is_finite() { ratio.clamp(0.0, 1.0) } else { 0.0 }
    };
    let value = ratio(part.value, rest.max(0.0));
    Estimate {
        value,
        low: ratio(part.low, high).min(value),
        high: ratio(part.high, low).max(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    #[test]
    fn variances_of_a_difference_add() {
        let change = difference(range(100.0, 97.0, 103.0), range(50.0, 46.0, 54.0));
        assert_eq!(change, range(50.0, 45.0, 55.0));
        assert_eq!(difference(range(5.0, 5.0, 5.0), range(7.0, 7.0, 7.0)), range(-2.0, -2.0, -2.0));
    }

    #[test]
    fn each_end_of_a_difference_comes_from_the_ends_that_lead_there() {
        let change = difference(range(10.0, 7.0, 10.0), range(0.0, 0.0, 4.0));
        assert_eq!(change, range(10.0, 5.0, 10.0));
    }

    #[test]
    fn a_share_is_exact_where_its_parts_are() {
        assert_eq!(share(range(1.0, 1.0, 1.0), range(4.0, 4.0, 4.0)), range(0.25, 0.25, 0.25));
        assert_eq!(share(range(0.0, 0.0, 0.0), range(0.0, 0.0, 0.0)).value, 0.0);
        let all = share(range(4.0, 3.0, 5.0), range(4.0, 3.0, 5.0));
        assert_eq!(all, range(1.0, 1.0, 1.0));
    }

    #[test]
    fn a_share_is_sure_as_far_as_the_part_and_the_rest_are() {
        let half = share(range(50.0, 40.0, 60.0), range(100.0, 85.0, 115.0));
        assert!(half.low > 0.35 && half.low < 0.45, "{half:?}");
        assert!(half.high > 0.55 && half.high < 0.65, "{half:?}");
    }

    #[test]
    fn a_difference_within_its_interval_is_not_significant() {
        let weight = Weight { now: Sum::exact(10, 5), before: Sum::exact(10, 4) };
        let change = weight.figures(&weight, Unit::Bytes, true).change.unwrap();
        assert_eq!((change.change.bytes.value, change.relative), (10.0, Some(0.25)));
        assert!(change.is_significant);
        let same = Weight { now: Sum::exact(10, 4), before: Sum::exact(10, 4) };
        assert!(!same.figures(&same, Unit::Bytes, true).change.unwrap().is_significant);
    }
}
