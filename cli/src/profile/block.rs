//! One recorded block of the heap: what the live set remembers of its allocation.

use std::num::NonZeroU32;

use heapattach_injector::{addr::RemoteAddr, event::StackId};

/// A recorded block. Two of them fill a cache line and none lies across two, so that finding one
/// costs one miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Block {
    /// Where it begins.
    pub at: RemoteAddr,
    /// The stamp of its allocation: its name.
    pub stamp: u64,
    /// The bytes asked for.
    pub size: u64,
    /// Who asked.
    pub stack: StackId,
    interval: NonZeroU32,
}

const _: () = assert!(size_of::<Block>() == 32, "half a cache line");

impl Block {
    /// A block out of an `Allocated` event.
    pub fn new(at: RemoteAddr, stamp: u64, size: u64, stack: StackId, interval: u64) -> Self {
        // Half a word is enough: no sampling is of use at 4 GiB between samples.
        let interval = u32::try_from(interval).unwrap_or(u32::MAX);
        Self {
            at,
            stamp,
            size,
            stack,
            interval: NonZeroU32::new(interval).unwrap_or(NonZeroU32::MIN),
        }
    }

    /// The probability with which a block of this size is taken; `None` if it always is.
    pub fn probability(&self) -> Option<f64> {
        let interval = self.interval.get();
        if interval == 1 || self.size >= u64::from(interval) {
            return None;
        }
        // A block of no bytes has no chance at all by the rule, yet here it is: the payload may
        // count it as one byte, and a probability of 0 has no inverse.
        let size = u32::try_from(self.size.max(1)).unwrap_or(u32::MAX);
        // `1 - exp(-x)` loses all its digits at small x, `exp_m1` none.
        Some(-(-f64::from(size) / f64::from(interval)).exp_m1())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probability(size: u64, interval: u64) -> Option<f64> {
        Block::new(RemoteAddr::new(16), 1, size, StackId(1), interval).probability()
    }

    #[test]
    fn a_block_of_at_least_the_interval_is_always_taken() {
        assert_eq!(probability(4096, 4096), None);
        assert_eq!(probability(4097, 4096), None);
        assert!(probability(4095, 4096).is_some());
    }

    #[test]
    fn without_an_interval_every_block_is_taken() {
        assert_eq!((probability(0, 0), probability(0, 1), probability(5, 1)), (None, None, None));
    }

    #[test]
    fn small_blocks_keep_their_digits() {
        let p = probability(1, 1 << 31).expect("far below the interval");
        let x = f64::from(1u32 << 31).recip();
        assert!((p / (x - x * x / 2.0) - 1.0).abs() < 1e-15, "{p}");
    }

    #[test]
    fn absurd_numbers_have_a_probability_above_zero() {
        for (size, interval) in
            [(0, u64::MAX), (1, u64::MAX), (0, 2), (u64::from(u32::MAX) - 1, u64::MAX)]
        {
            let p = probability(size, interval).expect("below the interval");
            assert!(p > 0.0 && p < 1.0, "{size} {interval} {p}");
        }
    }
}
