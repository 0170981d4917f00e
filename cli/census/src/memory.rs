//! What a census asks of memory that does not change meanwhile.

use std::ops::Range;

/// Memory as it was at one moment.
pub trait Memory {
    /// Fills `buffer` from `at` as far as memory can be read there; answers how many bytes that are.
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize;

    /// The parts of a range of private anonymous memory that have anything in them, present or swapped,
    /// ascending; all else is zero, and reading it would cost the target page tables.
    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>>;

    /// The parts of such a range that are in swap alone.
    fn swapped(&self, _range: &Range<u64>) -> Vec<Range<u64>> {
        Vec::new()
    }
}

/// Nothing at all: where only the map is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn present(&self, _: &Range<u64>) -> Vec<Range<u64>> {
        Vec::new()
    }
}
