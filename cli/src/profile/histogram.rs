//! How many blocks there are of each magnitude: of bytes, or of microseconds.

/// Estimated numbers of blocks by the binary logarithm of what is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// As many as are needed: the first holds what measures 0, the next 1, then 2 to 3, 4 to 7 ...
    buckets: Vec<f64>,
}

impl Histogram {
    /// Powers of two.
    pub const BUCKETS: usize = 65;

    /// Which bucket something belongs to.
    pub fn bucket(measure: u64) -> usize {
        (u64::BITS - measure.leading_zeros()) as usize
    }

    /// The least and the greatest that belong to a bucket.
    pub fn range(bucket: usize) -> (u64, u64) {
        let shift = u32::try_from(bucket.saturating_sub(1)).unwrap_or(u32::MAX);
        match bucket {
            0 => (0, 0),
            _ => {
                let low = 1_u64.checked_shl(shift).unwrap_or(u64::MAX);
                (low, low.saturating_mul(2).saturating_sub(1).max(low))
            }
        }
    }

    /// Adds so many blocks, or takes them away again.
    pub fn add(&mut self, measure: u64, blocks: f64) {
        let bucket = Self::bucket(measure);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0.0);
        }
        self.buckets[bucket] += blocks;
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0.0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, more)| *sum += more);
    }

    /// From the first bucket on.
    pub fn buckets(&self) -> &[f64] {
        &self.buckets
    }

    /// Out of a file: what is too long is cut, what is no number is none.
    pub fn from_buckets(mut buckets: Vec<f64>) -> Self {
        buckets.truncate(Self::BUCKETS);
        buckets.iter_mut().filter(|n| !n.is_finite()).for_each(|n| *n = 0.0);
        Self { buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(Histogram::bucket), [0, 1, 2, 2, 3, 3, 4]);
        for bucket in 1..64 {
            let (low, high) = Histogram::range(bucket);
            assert_eq!((Histogram::bucket(low), Histogram::bucket(high)), (bucket, bucket));
            assert_eq!(Histogram::range(bucket + 1).0, high + 1);
        }
        assert_eq!(Histogram::bucket(Histogram::range(64).1), 64);
    }

    #[test]
    fn two_are_added_bucket_by_bucket() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.add(5, 2.0);
        other.add(5, 1.0);
        other.add(100, 3.0);
        one.merge(&other);
        assert_eq!(one.buckets(), [0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 3.0]);
    }
}
