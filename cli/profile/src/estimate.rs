//! How much there is, and how sure we are: from the samples to a number with its interval.
//!
//! A block that was taken with probability `p` stands for `1/p` blocks (Horvitz and Thompson), each
//! sample by its own `p` and never by an average of sizes. Blocks that are always taken are not
//! estimated at all: the caller counts them, and adds them with [`Estimate::plus`].
//!
//! # The interval
//!
//! A site has few samples, and the estimates of its sum and of its variance err together: who saw
//! too few samples believes too much in them. `estimate ± 1.96 sqrt(variance)` then covers the
//! truth far too seldom. More sums mend this, all of them unbiased like the variance itself: with
//! `x = size/p` and `q = 1-p`, summed over the samples,
//!
//! ```text
//! variance      V  x² q        of the estimated sum
//! covariance    C  x³ q²       of the estimates of sum and variance
//! third moment  K  x³ q (q-p)  of the estimated sum
//! spread        W  x⁴ q³       variance of the estimated variance
//! ```
//!
//! If the truth lies `d` away from the estimate, the variance is best guessed as `V + d C/V`. The
//! interval holds each `d` with `d² <= z² (V + d C/V)`, the score interval of Wilson, moved by the
//! skewness as Cornish and Fisher have it. For equal blocks this is Wilson's interval for a
//! binomial, and for rare samples the mid-p interval of a Poisson count up to its second term.
//! Upwards the slope is `W/C` instead: the same for equal blocks, more for unequal ones, since what
//! was missed are rather the blocks of high weight.
//!
//! # What samples cannot know
//!
//! All that comes from what was seen. A site may mix sizes of some bytes with sizes of thousands, and
//! its truth lie in tiny blocks of which none was sampled: [`Unseen`] bounds them, and the upper end
//! takes that in as it would the error of another estimate. Bytes hardly notice, since a sample
//! stands for 1 to 1.6 intervals of them, whatever its size. The upper end of the *number* becomes one
//! that the truth hardly ever passes, so that the lower end may be passed a little more often.

use crate::reversible_sum::Wide;
use crate::{exact::float, unseen::Unseen};

/// The normal distribution has 95 % of its weight within so many standard deviations.
const Z: f64 = 1.959_963_984_540_054;
/// It is below its mean by more than so many in 3.6 % of cases.
const Z_ALONE: f64 = 1.8;
/// With so many samples that weigh alike the lower end begins to be found with the one, and is found
/// with the other. With few, their number jumps, and the interval needs both its sides.
const FEW: [f64; 2] = [5.0, 10.0];

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The unbiased estimate.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// Bytes and number of some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// The bytes requested.
    pub bytes: Estimate,
    /// The number of blocks.
    pub count: Estimate,
}

/// The sampled blocks of a kind: those that stand for more than themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    seen: u64,
    seen_bytes: u64,
    bytes: Moments,
    count: Moments,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    sum: Wide,
    variance: Wide,
    covariance: Wide,
    third: Wide,
    spread: Wide,
}

impl Estimate {
    /// The higher one.
    pub fn max(self, other: Self) -> Self {
        if other.value > self.value { other } else { self }
    }

    /// The same with a number added that is known.
    pub fn plus(self, exact: f64) -> Self {
        Self { value: self.value + exact, low: self.low + exact, high: self.high + exact }
    }
}

impl Samples {
    /// Adds a block that was taken with this probability.
    pub fn add(&mut self, size: u64, probability: f64) {
        self.seen = self.seen.saturating_add(1);
        self.seen_bytes = self.seen_bytes.saturating_add(size);
        self.bytes.add(float(size) / probability, probability, 1.0);
        self.count.add(probability.recip(), probability, 1.0);
    }

    /// Takes away a block that was added.
    pub fn remove(&mut self, size: u64, probability: f64) {
        self.seen = self.seen.saturating_sub(1);
        if self.seen == 0 {
            *self = Self::default();
            return;
        }
        self.seen_bytes = self.seen_bytes.saturating_sub(size);
        self.bytes.add(float(size) / probability, probability, -1.0);
        self.count.add(probability.recip(), probability, -1.0);
    }

    /// Adds so many blocks that were each taken with this probability.
    pub fn add_many(&mut self, size: u64, probability: f64, blocks: u64) {
        self.seen = self.seen.saturating_add(blocks);
        self.seen_bytes = self.seen_bytes.saturating_add(size.saturating_mul(blocks));
        self.bytes.add(float(size) / probability, probability, float(blocks));
        self.count.add(probability.recip(), probability, float(blocks));
    }

    /// Takes so many away.
    pub fn remove_many(&mut self, size: u64, probability: f64, blocks: u64) {
        self.seen = self.seen.saturating_sub(blocks);
        if self.seen == 0 {
            *self = Self::default();
            return;
        }
        self.seen_bytes = self.seen_bytes.saturating_sub(size.saturating_mul(blocks));
        self.bytes.add(float(size) / probability, probability, -float(blocks));
        self.count.add(probability.recip(), probability, -float(blocks));
    }

    /// Adds all samples of another sum.
    pub fn merge(&mut self, other: &Self) {
        self.seen = self.seen.saturating_add(other.seen);
        self.seen_bytes = self.seen_bytes.saturating_add(other.seen_bytes);
        self.bytes.merge(&other.bytes);
        self.count.merge(&other.count);
    }

    /// How many samples there are.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The bytes they stand for, without the interval.
    pub fn bytes(&self) -> f64 {
        self.bytes.sum.value()
    }

    /// The number of blocks that they stand for, without the interval.
    pub fn blocks(&self) -> f64 {
        self.count.sum.value()
    }

    /// Everything in it: the samples, their bytes, and the sums of both kinds.
    pub fn parts(&self) -> (u64, u64, [f64; SUMS]) {
        let mut sums = [0.0; SUMS];
        let all = self.bytes.parts().into_iter().chain(self.count.parts());
        sums.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        (self.seen, self.seen_bytes, sums)
    }

    /// Of such parts.
    pub fn of_parts(seen: u64, seen_bytes: u64, sums: [f64; SUMS]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j] = sums;
        let (bytes, count) = (Moments::of([a, b, c, d, e]), Moments::of([f, g, h, i, j]));
        Self { seen, seen_bytes, bytes, count }
    }

    /// The bytes and the number of blocks that were seen: there are at least as many.
    pub fn seen_at_least(&self) -> (u64, u64) {
        (self.seen_bytes, self.seen)
    }

    /// What the interval of the bytes, and that of the number of blocks, is made of: variance,
    /// covariance, third moment, spread. Those of several sums add up.
    pub fn moments(&self) -> [[f64; 4]; 2] {
        [&self.bytes, &self.count]
            .map(|of| [&of.variance, &of.covariance, &of.third, &of.spread].map(|sum| sum.value()))
    }

    /// What they stand for, and what may be there besides.
    pub fn measure(&self, unseen: Unseen) -> Measure {
        let [bytes, blocks] = unseen.parts();
        Measure {
            bytes: self.bytes.estimate(float(self.seen_bytes), bytes, false),
            count: self.count.estimate(float(self.seen), blocks, blocks > 0.0),
        }
    }
}

/// Sums behind an estimate of bytes and number.
pub const SUMS: usize = 10;

impl Moments {
    fn parts(&self) -> [f64; 5] {
        [self.sum, self.variance, self.covariance, self.third, self.spread].map(Wide::value)
    }

    fn of(parts: [f64; 5]) -> Self {
        let [sum, variance, covariance, third, spread] = parts.map(Wide::of);
        Self { sum, variance, covariance, third, spread }
    }

    fn merge(&mut self, other: &Self) {
        self.sum.add(other.sum.value());
        self.variance.add(other.variance.value());
        self.covariance.add(other.covariance.value());
        self.third.add(other.third.value());
        self.spread.add(other.spread.value());
    }

    fn add(&mut self, weighted: f64, p: f64, sign: f64) {
        let q = 1.0 - p;
        self.sum.add(sign * weighted);
        self.variance.add(sign * weighted.powi(2) * q);
        self.covariance.add(sign * weighted.powi(3) * q * q);
        self.third.add(sign * weighted.powi(3) * q * (q - p));
        self.spread.add(sign * weighted.powi(4) * q.powi(3));
    }

    /// The estimate; the truth is at least what was `seen`, and so much may be `unseen`. If it `is_open`
    /// that is out of all proportion, and only the lower end is ever passed.
    fn estimate(&self, seen: f64, unseen: f64, is_open: bool) -> Estimate {
        let (value, variance) = (self.sum.value(), self.variance.value());
        if variance <= 0.0 {
            return Estimate { value, low: value, high: value + unseen };
        }
        let slope = self.covariance.value() / variance;
        // At least `slope` except for rounding: each sum is the middle one of three by Cauchy.
        let steep = (self.spread.value() / self.covariance.value()).max(slope);
        let z = if is_open { self.lower_z() } else { Z };
        let shift = |z: f64| (z * z - 1.0) / 6.0 * self.third.value() / variance;
        // Both solve `d² = z² (variance + d slope)`.
        let reach = |slope: f64, z: f64| (variance + (z * slope / 2.0).powi(2)).sqrt() * z;
        let low = value - shift(z) + z * z * slope / 2.0 - reach(slope, z);
        let high = value - shift(Z) + Z * Z * steep / 2.0 + reach(steep, Z);
        let high = value + (high - value).max(0.0).hypot(unseen);
        Estimate { value, low: low.max(seen).min(value), high }
    }

    /// Standard deviations to the lower end of an interval whose upper end is never passed.
    fn lower_z(&self) -> f64 {
        let alike = self.variance.value().powi(3) / self.covariance.value().powi(2);
        let part = ((alike - FEW[0]) / (FEW[1] - FEW[0])).clamp(0.0, 1.0);
        if part.is_nan() { Z } else { Z + (Z_ALONE - Z) * part }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::block::{Kind, RowId},
        *,
    };

    fn probability(size: u64) -> f64 {
        Kind::new(RowId(1), size, 65_536).probability().expect("small")
    }

    fn samples(sizes: &[u64]) -> Samples {
        sizes.iter().fold(Samples::default(), |mut samples, &size| {
            samples.add(size, probability(size));
            samples
        })
    }

    #[test]
    fn each_sample_stands_for_the_inverse_of_its_own_probability() {
        let measure = samples(&[655, 32_768]).measure(Unseen::default());
        let weight = |size: f64| 1.0 / (1.0 - (-size / 65_536.0_f64).exp());
        let count = weight(655.0) + weight(32_768.0);
        let bytes = 655.0 * weight(655.0) + 32_768.0 * weight(32_768.0);
        assert!((measure.count.value / count - 1.0).abs() < 1e-9, "{measure:?}");
        assert!((measure.bytes.value / bytes - 1.0).abs() < 1e-9, "{measure:?}");
    }

    /// For rare samples, the interval is one of a Poisson count: 10 were seen, and the mid-p
    /// interval of that is 5.08 to 17.8.
    #[test]
    fn ten_rare_samples_are_a_poisson_count_of_ten() {
        let count = samples(&[16; 10]).measure(Unseen::default()).count;
        let one = count.value / 10.0;
        assert!((count.low / one - 5.08).abs() < 0.15, "{}", count.low / one);
        assert!((count.high / one - 17.8).abs() < 0.15, "{}", count.high / one);
    }

    #[test]
    fn the_truth_is_never_less_than_what_was_seen() {
        let measure = samples(&[60_000; 2]).measure(Unseen::default());
        assert_eq!((measure.bytes.low, measure.count.low), (120_000.0, 2.0));
    }

    #[test]
    fn what_came_and_went_leaves_no_trace() {
        let mut some = samples(&[100, 3_000]);
        let before = some.measure(Unseen::default());
        for size in [1, 2, 60_000] {
            some.add(size, probability(size));
        }
        for size in [2, 60_000, 1] {
            some.remove(size, probability(size));
        }
        let after = some.measure(Unseen::default());
        for (before, after) in [(before.bytes, after.bytes), (before.count, after.count)] {
            assert!((after.low / before.low - 1.0).abs() < 1e-9, "{before:?} {after:?}");
            assert!((after.high / before.high - 1.0).abs() < 1e-9, "{before:?} {after:?}");
        }
        for size in [100, 3_000] {
            some.remove(size, probability(size));
        }
        assert_eq!(some.measure(Unseen::default()), Measure::default());
    }
}
