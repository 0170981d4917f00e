//! One recorded block of the heap: what the live set remembers of its allocation.

use std::num::NonZeroU32;

use heapattach_process::addr::RemoteAddr;

use crate::tick::Tick;

/// A row of the sheet, by its number; 0 is the row of all that has no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u32);

/// What blocks can have in common: their size, whose they are, and how they were sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The stack and thread that asked.
    pub row: RowId,
    /// The bytes requested.
    pub size: u64,
    interval: NonZeroU32,
}

/// A recorded block. Two of them fill a cache line and none lies across two, so that finding one
/// costs one miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Block {
    /// Where it begins; the upper half of its birth above that.
    at: u64,
    /// Its name; the lower half of its birth above that.
    stamp: u64,
    kind: Kind,
}

const _: () = assert!(size_of::<Block>() == 32, "half a cache line");

/// Addresses have no more bits, and stamps are counted up one by one.
const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;

impl Kind {
    /// Of an interval as the target says it.
    pub fn new(row: RowId, size: u64, interval: u64) -> Self {
        // Half a word is enough: no sampling is of use at 4 GiB between samples.
        let interval = u32::try_from(interval).unwrap_or(u32::MAX);
        Self { row, size, interval: NonZeroU32::new(interval).unwrap_or(NonZeroU32::MIN) }
    }

    /// The same in another row.
    #[must_use]
    pub fn in_row(self, row: RowId) -> Self {
        Self { row, ..self }
    }

    /// The mean distance between samples.
    pub fn interval(&self) -> u32 {
        self.interval.get()
    }

    /// The probability with which a block of this size is taken; `None` if it always is.
    #[inline]
    pub fn probability(&self) -> Option<f64> {
        let interval = self.interval.get();
        let is_sure = interval == 1 || self.size >= u64::from(interval);
        (!is_sure).then(|| self.chance())
    }

    fn chance(&self) -> f64 {
        let interval = self.interval.get();
        // A block of no bytes has no chance at all by the rule, yet here it is: the payload may
        // count it as one byte, and a probability of 0 has no inverse.
        let size = u32::try_from(self.size.max(1)).unwrap_or(u32::MAX);
        // `1 - exp(-x)` loses all its digits at small x, `exp_m1` none.
        -(-f64::from(size) / f64::from(interval)).exp_m1()
    }
}

impl Block {
    /// A block out of an `Allocated` event.
    pub fn new(at: RemoteAddr, stamp: u64, birth: Tick, kind: Kind) -> Self {
        let birth = u64::from(birth.0);
        let at = at.get() & MASK | birth >> 16 << BITS;
        Self { at, stamp: stamp & MASK | birth << BITS, kind }
    }

    /// The address of its first byte.
    pub fn at(&self) -> RemoteAddr {
        RemoteAddr::new(self.at & MASK)
    }

    /// The stamp of its allocation: its name.
    pub fn stamp(&self) -> u64 {
        self.stamp & MASK
    }

    /// When its record was read.
    pub fn birth(&self) -> Tick {
        let (high, low) = (self.at >> BITS, self.stamp >> BITS);
        Tick(u32::try_from(high << 16 | low).unwrap_or_default())
    }

    /// What it has in common with others.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// An address as blocks have it.
pub fn narrow(at: RemoteAddr) -> RemoteAddr {
    RemoteAddr::new(at.get() & MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probability(size: u64, interval: u64) -> Option<f64> {
        Kind::new(RowId(1), size, interval).probability()
    }

    #[test]
    fn a_block_has_what_it_was_made_of() {
        let kind = Kind::new(RowId(7), 24, 1);
        let block =
            Block::new(RemoteAddr::new(0x7fff_1234_5678), MASK - 1, Tick(0xdead_beef), kind);
        assert_eq!((block.at().get(), block.stamp()), (0x7fff_1234_5678, MASK - 1));
        assert_eq!((block.birth(), block.kind()), (Tick(0xdead_beef), kind));
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
