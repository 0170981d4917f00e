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
//! truth far too seldom. Three more sums mend this, all of them unbiased like the variance itself:
//! with `x = size/p` and `q = 1-p`, summed over the samples,
//!
//! ```text
//! variance      V  x² q        of the estimated sum
//! covariance    C  x³ q²       of the estimates of sum and variance
//! third moment  K  x³ q (q-p)  of the estimated sum
//! ```
//!
//! If the truth lies `d` above the estimate, the variance is best guessed as `V + d C/V`. The
//! interval holds each `d` with `d² <= z² (V + d C/V)`, the score interval of Wilson, moved by the
//! skewness as Cornish and Fisher have it. For equal blocks this is Wilson's interval for a
//! binomial, and for rare samples the mid-p interval of a Poisson count up to its second term.

use super::{block::Block, wide::Wide};

/// The normal distribution has 95 % of its weight within so many standard deviations.
const Z: f64 = 1.959_963_984_540_054;

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
    /// The bytes asked for.
    pub bytes: Estimate,
    /// How many blocks.
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
    pub fn add(&mut self, block: &Block, probability: f64) {
        self.seen = self.seen.saturating_add(1);
        self.seen_bytes = self.seen_bytes.saturating_add(block.size);
        self.bytes.add(float(block.size) / probability, probability, 1.0);
        self.count.add(probability.recip(), probability, 1.0);
    }

    /// Takes away a block that was added.
    pub fn remove(&mut self, block: &Block, probability: f64) {
        self.seen = self.seen.saturating_sub(1);
        if self.seen == 0 {
            *self = Self::default();
            return;
        }
        self.seen_bytes = self.seen_bytes.saturating_sub(block.size);
        self.bytes.add(float(block.size) / probability, probability, -1.0);
        self.count.add(probability.recip(), probability, -1.0);
    }

    /// How many samples there are.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The bytes they stand for, without the interval.
    pub fn bytes(&self) -> f64 {
        self.bytes.sum.value()
    }

    /// What they stand for.
    pub fn measure(&self) -> Measure {
        Measure {
            bytes: self.bytes.estimate(float(self.seen_bytes)),
            count: self.count.estimate(float(self.seen)),
        }
    }
}

impl Moments {
    fn add(&mut self, weighted: f64, p: f64, sign: f64) {
        let q = 1.0 - p;
        self.sum.add(sign * weighted);
        self.variance.add(sign * weighted.powi(2) * q);
        self.covariance.add(sign * weighted.powi(3) * q * q);
        self.third.add(sign * weighted.powi(3) * q * (q - p));
        self.spread.add(sign * weighted.powi(4) * q.powi(3));
    }

    /// The estimate; the truth is at least what was `seen`.
    fn estimate(&self, seen: f64) -> Estimate {
        let (value, variance) = (self.sum.value(), self.variance.value());
        if variance <= 0.0 {
            return Estimate { value, low: value, high: value };
        }
        let slope = self.covariance.value() / variance;
        let skew = self.third.value() / variance;
        let middle = value + Z * Z * slope / 2.0 - (Z * Z - 1.0) * skew / 6.0;
        let heavy = (self.spread.value() / self.covariance.value()).max(slope);let heavy = heavy * (heavy / slope).powf(std::env::var("K").unwrap().parse().unwrap()).min(100.0);
        let upper = (Z * Z * variance + (Z * Z * heavy / 2.0).powi(2)).sqrt() + Z*Z*heavy/2.0 - (Z * Z - 1.0) * skew / 6.0 + value;
        let half = (Z * Z * variance + (Z * Z * slope / 2.0).powi(2)).sqrt();
        let low = (middle - half).max(seen).min(value);
        Estimate { value, low, high: (value + (upper - value) * (1.0 + std::env::var("R").unwrap().parse::<f64>().unwrap() * (Z*Z+1.0)/8.0 * (self.spread.value() / variance - slope*slope).max(0.0)/variance)).max(value) }
    }
}

/// The nearest floating-point number: a count of bytes has more digits only beyond 8 PiB.
pub fn float(number: u64) -> f64 {
    number as f64
}
