//! Intervals of sums whose samples are not kept: never narrower than those that the samples would give
//! except for roundings, and wider by as little as is known of them.
//!
//! Of a sum of blocks the value `N` is known, and that no block stands for more than `w`: the number
//! that one of the smallest size stands for. Each sample adds `w(w-1)` to the variance and `w` to the
//! sum. So the variance is at most `N(w-1)`, and the other sums that an interval is made of (see
//! `estimate`) are at most those of `N/w` blocks of the smallest size. In a class of sizes that ends
//! at twice of where it begins this is at most about twice the true variance. Where the samples are
//! part of a sum that is kept, theirs are at most those of that sum.
//!
//! Of bytes the same holds with the interval of sampling in the place of `w-1`: a sample of size `s`
//! and probability `p` adds `(s/p)² (1-p)`, that is `s/p` times `s(1-p)/p`, which is never more than
//! the interval.

use crate::{
    block::{Kind, RowId},
    estimate::{Estimate, SUMS, Samples},
    exact::float,
    sum::Sum,
    unseen::{UNSEEN, Unseen},
};

/// What is known of a sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bound {
    value: f64,
    /// Variance, covariance, third moment, spread: at most.
    moments: [f64; 4],
    /// There are at least so many.
    floor: f64,
    /// What a single sample may stand for.
    weight: f64,
}

impl Bound {
    /// A number of blocks none of which is smaller than `least`.
    pub fn blocks(count: f64, least: u64, interval: u64) -> Self {
        let weight = Kind::new(RowId(0), least, interval).probability().map_or(1.0, f64::recip);
        Self { floor: count / weight, ..Self::of(count, weight, weight - 1.0) }
    }

    /// Bytes of blocks of any size.
    pub fn bytes(bytes: f64, interval: u64) -> Self {
        Self::of(bytes, float(interval), float(interval))
    }

    /// They are some of the blocks of this sum.
    pub fn among(mut self, all: &Sum) -> Self {
        let known = all.parts().1.map_or([0.0; 4], |samples| samples.moments()[1]);
        self.moments.iter_mut().zip(known).for_each(|(own, known)| *own = own.min(known));
        self
    }

    /// Those of another, too.
    pub fn merge(&mut self, other: &Self) {
        self.value += other.value;
        self.floor += other.floor;
        self.weight = self.weight.max(other.weight);
        self.moments.iter_mut().zip(other.moments).for_each(|(sum, more)| *sum += more);
    }

    /// The estimate with its interval.
    pub fn estimate(&self) -> Estimate {
        let Self { value, moments: [variance, covariance, third, spread], floor, weight } = *self;
        if value <= 0.0 {
            let is_sampled = weight > 1.0 && variance >= 0.0;
            let high = if is_sampled { UNSEEN * weight } else { 0.0 };
            return Estimate { value: 0.0, low: 0.0, high };
        }
        let mut sums = [0.0; SUMS];
        sums[SUMS / 2..].copy_from_slice(&[value, variance, covariance, third, spread]);
        let estimate = Samples::of_parts(1, 0, sums).measure(Unseen::default()).count;
        Estimate { low: estimate.low.max(floor).min(value), ..estimate }
    }

    fn of(value: f64, weight: f64, slope: f64) -> Self {
        let value = if value.is_finite() { value.max(0.0) } else { 0.0 };
        let variance = value * slope;
        let third = variance * (slope - 1.0);
        let moments = [variance, variance * slope, third, variance * slope * slope];
        Self { value, moments, floor: 0.0, weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_smallest_size_have_the_interval_of_their_samples() {
        for (size, blocks) in [(16, 10), (3000, 40), (16_000, 3)] {
            let count = Sum::sampled(size, blocks, 16_384).measure().count;
            let bound = Bound::blocks(count.value, size, 16_384).estimate();
            assert!((bound.low / count.low - 1.0).abs() < 1e-3, "{bound:?} {count:?}");
            assert!((bound.high / count.high - 1.0).abs() < 1e-3, "{bound:?} {count:?}");
        }
    }

    #[test]
    fn others_have_a_wider_one() {
        let count = Sum::sampled(31, 10, 16_384).measure();
        let bound = Bound::blocks(count.count.value, 16, 16_384).estimate();
        assert!(bound.low < count.count.low && bound.high > count.count.high);
        let bytes = Bound::bytes(count.bytes.value, 16_384).estimate();
        assert!(bytes.low <= count.bytes.low && bytes.high >= count.bytes.high);
    }

    #[test]
    fn what_is_known_block_by_block_is_known() {
        let is_known = |estimate: Estimate| estimate.low == estimate.high;
        assert!(is_known(Bound::blocks(7.0, 4096, 4096).estimate()));
        assert!(is_known(Bound::blocks(7.0, 16, 1).estimate()));
        assert!(is_known(Bound::blocks(7.0, 16, 4096).among(&Sum::exact(9000, 7)).estimate()));
    }

    #[test]
    fn what_was_not_sampled_may_be_there() {
        let none = Bound::blocks(0.0, 16, 16_384).estimate();
        assert!(none.low == 0.0 && (none.high / 1024.5 - UNSEEN).abs() < 0.01, "{none:?}");
        assert_eq!(Bound::blocks(0.0, 16, 1).estimate().high, 0.0);
    }
}
