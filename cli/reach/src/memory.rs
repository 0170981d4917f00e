//! What the check asks of memory that does not change meanwhile: bytes, and which ranges of it mean what.

use std::ops::Range;

use super::RootKind;

/// Memory as it was at one moment.
pub trait Memory {
    /// Fills `buffer` from the address; what cannot be read is zero.
    fn read(&mut self, at: u64, buffer: &mut [u8]);

    /// Whether what is read says nothing any more: there is no time left.
    fn is_over(&self) -> bool {
        false
    }
}

/// A range that is looked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The addresses of the piece.
    pub range: Range<u64>,
    /// What a pointer in it is, unless it lies in a block; `None` holds nothing.
    pub root: Option<RootKind>,
}

/// A pointer that lies in no memory, or that is known to mean the whole block it leads into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The address it points to.
    pub word: u64,
    /// Where it was found.
    pub root: RootKind,
    /// It holds the block it leads into, wherever it leads there.
    pub holds_whole: bool,
}

/// Which ranges of the memory mean what.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// What is looked through; sorted, no two overlap.
    pub pieces: Vec<Piece>,
    /// Pointers besides.
    pub pointers: Vec<Pointer>,
    /// Code; sorted, no two overlap.
    pub code: Vec<Range<u64>>,
    /// What comes from files: tables of virtual functions are there. Sorted, no two overlap.
    pub files: Vec<Range<u64>>,
    /// Whether pointers may lie at any byte.
    pub unaligned: bool,
}

impl Layout {
    /// Whether it is code that comes from no file: made at run time.
    pub(crate) fn is_made_code(&self, at: u64) -> bool {
        covers(&self.code, at) && !covers(&self.files, at)
    }
}

/// Whether a range of a sorted list has the address.
pub fn covers(ranges: &[Range<u64>], at: u64) -> bool {
    let index = ranges.partition_point(|range| range.end <= at);
    ranges.get(index).is_some_and(|range| range.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_one_of_the_ranges_or_in_none() {
        let ranges = [10..20, 20..30, 40..41];
        let inside: Vec<_> = (0..50).filter(|&at| covers(&ranges, at)).collect();
        assert_eq!(inside, (10..30).chain([40]).collect::<Vec<_>>());
    }
}
