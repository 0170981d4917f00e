//! Calls of hooked functions by hooked functions: a `malloc` of the program's own that asks the C
//! library's. What a row remembers of the call that its thread is in the middle of.
//!
//! A block that a call allocates is a part of the enclosing call's if that one allocates the same
//! block, or a part of it: then it is one allocation, the outer one. Which it is shows only when the
//! enclosing call returns. Until then the block is *pending*: its record has a place in the ring, but
//! is not written.
//!
//! The same holds for an `mmap` that asks another one, which may map more than it allocates and unmap
//! what is too much: a mapping is a part of the enclosing call's if any page of it is. Calls of blocks
//! and calls of pages are told apart: what an allocator maps in the middle of a `malloc` is its own.

use core::mem::offset_of;

/// A block allocated in the middle of another call.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// Address, kind, hook and interval, as [`crate::ring::pack`] has them; 0: there is none.
    pub packed: u64,
    /// The bytes asked for.
    pub size: u64,
    /// The number of its stack, and above it whether a record waits to be written.
    pub stack: u64,
    /// The position in the ring of that record.
    pub position: u64,
    /// Its stamp.
    pub stamp: u64,
}

/// In [`Pending::stack`]: there is a record.
pub const HAS_RECORD: u64 = 1 << 32;
/// Blocks of one call that are pending at most; of more, the oldest count as blocks of their own.
pub const PENDING: usize = 8;
/// Size of a [`Pending`].
pub const PENDING_BYTES: usize = size_of::<Pending>();
/// A call that is further down than this is on another stack, or the outer one has long been left.
pub const REACH: u64 = 1 << 20;
/// Number of the interval in the record of a block that is freed in the middle of another call:
/// it counts as no call.
pub const INNER: u8 = 1;

const PAGE_SHIFT: u32 = 12;
const PAGE_BITS: u32 = 36;
const MOST_PAGES: u64 = (1 << (u64::BITS - PAGE_BITS)) - 1;

/// The pages of a range in one word, which no signal handler can tear; 0: none.
pub const fn pack_pages(at: u64, length: u64) -> u64 {
    if length == 0 {
        return 0;
    }
    let first = at >> PAGE_SHIFT & ((1 << PAGE_BITS) - 1);
    let last = at.saturating_add(length - 1) >> PAGE_SHIFT;
    let pages = last.wrapping_sub(at >> PAGE_SHIFT) + 1;
    first | (if pages > MOST_PAGES { MOST_PAGES } else { pages }) << PAGE_BITS
}

/// Whether two such ranges have a page in common.
pub const fn share_pages(one: u64, other: u64) -> bool {
    let (first, pages) = unpack(one);
    let (other_first, other_pages) = unpack(other);
    first < other_first + other_pages && other_first < first + pages
}

/// Whether the first of such ranges has all pages of the second.
pub const fn has_pages(outer: u64, inner: u64) -> bool {
    let (first, pages) = unpack(outer);
    let (inner_first, inner_pages) = unpack(inner);
    first <= inner_first && inner_first + inner_pages <= first + pages
}

const fn unpack(word: u64) -> (u64, u64) {
    (word & ((1 << PAGE_BITS) - 1), word >> PAGE_BITS)
}

/// Offset of [`Pending::size`].
pub const SIZE: usize = offset_of!(Pending, size);
/// Offset of [`Pending::stack`].
pub const STACK: usize = offset_of!(Pending, stack);
/// Offset of [`Pending::position`].
pub const POSITION: usize = offset_of!(Pending, position);
/// Offset of [`Pending::stamp`].
pub const STAMP: usize = offset_of!(Pending, stamp);

const _: () = assert!(offset_of!(Pending, packed) == 0);
const _: () = assert!(PENDING_BYTES == 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_compared_as_the_kernel_takes_them() {
        let range = |at: u64, length| pack_pages(0x7f00_0000_0000 + at, length);
        assert!(share_pages(range(0, 1), range(0xfff, 1)));
        assert!(!share_pages(range(0, 0x1000), range(0x1000, 1)));
        assert!(share_pages(range(0, 0x1001), range(0x1000, 1)));
        assert!(has_pages(range(0, 0x3000), range(0x1000, 0x2000)));
        assert!(!has_pages(range(0x1000, 0x2000), range(0, 0x3000)));
        // What is longer than the word tells is as long as it tells.
        assert!(share_pages(range(0, u64::MAX), range(1 << 39, 1)));
        // Nothing shares nothing.
        assert!(!share_pages(0, range(0, 0x1000)) && !share_pages(range(0, 0x1000), 0));
        assert_eq!(pack_pages(0x1000, 0), 0);
    }
}
