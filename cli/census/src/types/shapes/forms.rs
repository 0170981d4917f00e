//! Forms that lie in a few words: text with length and room, arrays with begin, end and room.

use std::{cell::Cell, ops::Range};

use heapattach_reach::Blocks;

use crate::Moment;

/// The room of a text that needs no block.
const SHORT: u64 = 15;
/// What glibc adds at most: up to its next size, and a rest that is too small for a block of its own.
const MOST_ADDED: u64 = 32;
/// Its smallest block.
const SMALLEST: u64 = 24;
/// A large block can be a mapping of its own, which ends with a page.
const LARGE: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// A text is looked at in pieces of this size.
const PIECE: u64 = 4096;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// The text of `std::string`.
    Text,
    /// The elements of `std::vector`.
    Array,
    /// A node of `std::list`.
    ListNode,
    /// A node of `std::map` or `std::set`.
    TreeNode,
    /// A node of `std::unordered_map` or `std::unordered_set`.
    HashNode,
    /// Its table.
    HashTable,
    /// The table of `std::deque`.
    DequeTable,
    /// A piece of it.
    DequePiece,
    /// The text of Rust's `String`.
    RustText,
    /// The table of Rust's `HashMap` or `HashSet`.
    RustTable,
    /// The elements of Rust's `Vec`.
    RustArray,
    /// A value of Rust's `Rc` or `Arc`, with its counts.
    RustCounted,
    /// A trait object of Rust: the index of its table of functions.
    Trait(u32),
}

/// What is requested for a form.
pub(super) struct View<'a, 'm> {
    pub moment: &'a Moment<'m>,
    pub blocks: &'a Blocks,
    /// Whether an allocator has size classes that are further apart than 16 bytes.
    pub has_classes: bool,
    /// Modules, from the first to the last.
    pub modules: Range<u64>,
    /// So many nodes may still be followed: a chain can be looked at from each of its nodes.
    pub left: Cell<u64>,
}

impl View<'_, '_> {
    /// One node more, if there may be.
    pub fn step(&self) -> Option<()> {
        self.steps(1)
    }

    /// So many nodes more, if there may be; else there are none any more.
    pub fn steps(&self, count: u64) -> Option<()> {
        let left = self.left.get().checked_sub(count);
        self.left.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// The block that begins there, and its bytes.
    pub fn block(&self, at: u64) -> Option<(u32, u64)> {
        let number = self.blocks.containing(at)?;
        let block = self.blocks.get(number);
        (block.at == at).then_some((number, block.size))
    }

    /// Whether a block of this size is what an allocator makes of so many bytes.
    pub fn is_room_of(&self, bytes: u64, size: u64) -> bool {
        let Some(rest) = size.checked_sub(bytes) else { return false };
        let is_mapped = size >= LARGE && rest < PAGE;
        rest < MOST_ADDED || is_mapped || self.has_classes && rest < size / 4
    }

    pub fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        self.moment.these_words(at)
    }

    /// Address, length, room: room and an end of one byte fit the block, there is a zero behind the length, and none
    /// before it.
    pub fn text(&self, at: u64) -> Option<u32> {
        let [from, length, room] = self.words(at)?;
        if room <= SHORT || length > room {
            return None;
        }
        let (number, size) = self.block(from)?;
        let fits = self.is_room_of(room.checked_add(1)?, size) && size > SMALLEST;
        (fits && self.ends_there(from, length)).then_some(number)
    }

    /// By words of pages that are kept: there may be millions of texts.
    pub fn ends_there(&self, from: u64, length: u64) -> bool {
        let end = from.saturating_add(length);
        // A longer one is not looked at to its end: where it ends is enough then.
        let last = end.min(from.saturating_add(PIECE));
        let is_zero = |at: u64, behind: u64| {
            let start = at & !7;
            let bytes = self.moment.word(start)?.to_le_bytes();
            let part = (at - start)..(behind - start).min(8);
            let part = usize::try_from(part.start).ok()?..usize::try_from(part.end).ok()?;
            Some(bytes.get(part)?.contains(&0))
        };
        let mut at = from;
        while at < last {
            if is_zero(at, last) != Some(false) {
                return false;
            }
            at = (at & !7) + 8;
        }
        end.checked_add(1).is_some_and(|behind| is_zero(end, behind) == Some(true))
    }

    /// Three addresses in one block: its beginning, an end, and the end of its room.
    pub fn array(&self, at: u64) -> Option<(u32, u64)> {
        let [from, end, room] = self.words(at)?;
        let is_in_order = from != 0 && from <= end && end <= room && from < room;
        let used = end.checked_sub(from).filter(|_| is_in_order)?;
        let (number, size) = self.block(from)?;
        // A vector of nothing says little.
        let fits = self.is_room_of(room - from, size) && used > 0 && size >= SMALLEST;
        fits.then_some((number, used))
    }
}
