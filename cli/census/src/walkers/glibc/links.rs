//! Whether bins and free chunks fit each other: all lists are rings of links forward and back, so links
//! lead to every free chunk and every bin once, and to nothing else. Sums of numbers made of the addresses
//! tell that in one pass, in the order of memory.

use crate::Moment;

use super::{
    arena::Books,
    chunks::{Chunks, Mark},
};

/// Where a chunk's links lie.
const NEXT: u64 = 16;
/// Free chunks that are followed one by one when the sums differ.
const MOST: u64 = 1 << 20;

/// Sums over places in lists: of where they are, and of where their links lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    places: u64,
    next: u64,
    before: u64,
}

impl Links {
    /// Counts a place.
    #[inline]
    pub fn add(&mut self, place: u64, next: u64, before: u64) {
        self.places = self.places.wrapping_add(mixed(place));
        self.next = self.next.wrapping_add(mixed(next));
        self.before = self.before.wrapping_add(mixed(before));
    }

    /// Undoes that.
    pub fn take_back(&mut self, place: u64, next: u64, before: u64) {
        self.places = self.places.wrapping_sub(mixed(place));
        self.next = self.next.wrapping_sub(mixed(next));
        self.before = self.before.wrapping_sub(mixed(before));
    }

    fn merge(&mut self, other: &Self) {
        self.places = self.places.wrapping_add(other.places);
        self.next = self.next.wrapping_add(other.next);
        self.before = self.before.wrapping_add(other.before);
    }

    /// Whether every place is led to once in each direction.
    fn are_rings(&self) -> bool {
        self.places == self.next && self.places == self.before
    }
}

/// How many free chunks and list members do not fit each other; at least 1 if any.
pub fn wrong(moment: &Moment<'_>, books: &Books, chunks: &Chunks, arena: u32) -> u64 {
    let mut sums = Links::default();
    for bin in 0..books.bins() {
        sums.add(books.bin(bin), books.links[2 * bin], books.links[2 * bin + 1]);
    }
    for segment in chunks.segments.iter().filter(|segment| segment.arena == arena) {
        sums.merge(&segment.links);
    }
    match sums.are_rings() {
        true => 0,
        false => counted(moment, books, chunks, arena).max(1),
    }
}

/// The same, one by one: chunks in lists that are not free, and free ones that are in no list.
fn counted(moment: &Moment<'_>, books: &Books, chunks: &Chunks, arena: u32) -> u64 {
    let own = chunks.segments.iter().filter(|segment| segment.arena == arena);
    let free = own.flat_map(|s| s.all()).filter(|chunk| chunk.mark == Mark::Free).count() as u64;
    let (mut listed, mut wrong, mut steps) = (0_u64, 0_u64, 0_u64);
    for bin in 0..books.bins() {
        let (head, mut at) = (books.bin(bin), books.links[2 * bin]);
        while at != head && steps < MOST {
            steps += 1;
            match chunks.find(at) {
                Some((_, chunk)) if chunk.mark == Mark::Free => listed += 1,
                _ => wrong += 1,
            }
            let Some(next) = at.checked_add(NEXT).and_then(|at| moment.word(at)) else { break };
            at = next;
        }
    }
    wrong + free.abs_diff(listed)
}

/// A number that sums of few others hardly make.
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
    let word = (word ^ (word >> 27)).wrapping_mul(0x81da_def4_bc2d_d44d);
    word ^ (word >> 33)
}
