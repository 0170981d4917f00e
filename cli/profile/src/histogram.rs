//! How many blocks there are of each magnitude: of bytes, or of microseconds.
//!
//! A session has up to millions of these, most of some whole blocks of few magnitudes: they need
//! no memory but their own few bytes, and each of them is in a cache with the row it belongs to.

use std::fmt;

/// Estimated numbers of blocks by the binary logarithm of what is measured: the first bucket holds
/// what measures 0, the next 1, then 2 to 3, 4 to 7 ...
#[derive(Clone)]
pub struct Histogram(Buckets);

/// Buckets that a small histogram has room for.
const FEW: usize = 7;

#[derive(Clone)]
enum Buckets {
    /// Whole blocks, and beside them which buckets they are in; no blocks: the place is free.
    Few { buckets: [u8; FEW], blocks: [u8; FEW] },
    /// Everything else: as many as are needed, from the first bucket on.
    #[allow(clippy::box_collection, reason = "in place it would be as large as all the others")]
    Many(Box<Vec<f64>>),
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
        self.add_to(Self::bucket(measure), blocks);
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        match &other.0 {
            Buckets::Few { buckets, blocks } => {
                let told = buckets.iter().zip(blocks).filter(|(_, more)| **more > 0);
                told.for_each(|(bucket, more)| self.add_to((*bucket).into(), (*more).into()));
            }
            Buckets::Many(more) => {
                (0..).zip(more.iter()).for_each(|(bucket, more)| self.add_to(bucket, *more));
            }
        }
    }

    /// From the first bucket to the last that is not empty.
    pub fn buckets(&self) -> Vec<f64> {
        let mut all = match &self.0 {
            Buckets::Few { buckets, blocks } => {
                let used = buckets.iter().zip(blocks).filter(|(_, blocks)| **blocks > 0);
                let end = used.clone().map(|(bucket, _)| usize::from(*bucket) + 1).max();
                let mut all = vec![0.0; end.unwrap_or(0)];
                used.for_each(|(bucket, blocks)| all[usize::from(*bucket)] = (*blocks).into());
                all
            }
            Buckets::Many(all) => Vec::clone(all),
        };
        all.truncate(all.iter().rposition(|&blocks| blocks != 0.0).map_or(0, |last| last + 1));
        all
    }

    /// Out of a file: what is too long is cut, what is not a number is none.
    pub fn from_buckets(buckets: impl IntoIterator<Item = f64>) -> Self {
        let mut histogram = Self::default();
        let buckets = buckets.into_iter().take(Self::BUCKETS).enumerate();
        buckets.for_each(|(bucket, blocks)| histogram.add_told(bucket, blocks));
        histogram
    }

    /// Adds one bucket out of a file.
    pub fn add_told(&mut self, bucket: usize, blocks: f64) {
        if bucket < Self::BUCKETS && blocks.is_finite() && blocks != 0.0 {
            self.add_to(bucket, blocks);
        }
    }

    #[inline]
    fn add_to(&mut self, bucket: usize, more: f64) {
        match &mut self.0 {
            Buckets::Many(all) if bucket < all.len() => all[bucket] += more,
            _ => self.add_to_few(bucket, more),
        }
    }

    /// The same in a small one, or in one that is too small.
    fn add_to_few(&mut self, bucket: usize, more: f64) {
        if let Buckets::Few { buckets, blocks } = &mut self.0 {
            let (mut own, mut vacant) = (None, None);
            for place in 0..FEW {
                match blocks[place] {
                    0 => vacant = Some(place),
                    _ if usize::from(buckets[place]) == bucket => own = Some(place),
                    _ => {}
                }
            }
            if let (Some(place), Ok(bucket)) = (own.or(vacant), u8::try_from(bucket))
                && let Some(sum) = small(f64::from(blocks[place]) + more)
            {
                (buckets[place], blocks[place]) = (bucket, sum);
                return;
            }
        }
        self.add_to_many(bucket, more);
    }

    /// The same in a large one that may have to grow, or to become one.
    #[cold]
    fn add_to_many(&mut self, bucket: usize, more: f64) {
        if let Buckets::Few { .. } = self.0 {
            self.0 = Buckets::Many(Box::new(self.buckets()));
        }
        if let Buckets::Many(all) = &mut self.0 {
            if all.len() <= bucket {
                all.resize(bucket + 1, 0.0);
            }
            all[bucket] += more;
        }
    }
}

/// As a whole number that a small histogram has room for.
fn small(blocks: f64) -> Option<u8> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked")]
    let whole = blocks as u8;
    (f64::from(whole) == blocks).then_some(whole)
}

impl Default for Histogram {
    fn default() -> Self {
        Self(Buckets::Few { buckets: [0; FEW], blocks: [0; FEW] })
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.buckets() == other.buckets()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.buckets()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn a_row_has_little_more_than_its_sums() {
        assert_eq!(size_of::<Histogram>(), 16);
    }

    proptest! {
        /// All that is added, in place or not, gives the same as in a plain list.
        #[test]
        fn small_ones_and_large_ones_are_equal(
            some in prop::collection::vec((0..65usize, 0..3u8, 0..300u16), 0..40),
            near in prop::collection::vec((20..30usize, 0..2u8, 0..4u16), 0..600),
        ) {
            let (mut one, mut plain) = (Histogram::default(), vec![0.0; Histogram::BUCKETS]);
            for (bucket, kind, number) in near.into_iter().chain(some) {
                let number = f64::from(number);
                let blocks = [number, -number, number / 3.0][usize::from(kind)];
                one.add(Histogram::range(bucket).0, blocks);
                plain[bucket] += blocks;
            }
            let mut sum = one.clone();
            sum.merge(&one);
            let again = Histogram::from_buckets(plain.clone());
            prop_assert_eq!(&again, &one);
            let told = one.buckets();
            plain.truncate(told.len().max(1));
            prop_assert!(told.iter().zip(&plain).all(|(a, b)| a == b));
            prop_assert!(sum.buckets().iter().zip(&plain).all(|(a, b)| *a == 2.0 * b));
        }
    }
}
