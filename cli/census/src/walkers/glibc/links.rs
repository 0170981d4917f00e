//! Whether bins and free chunks fit each other: all lists are rings of links forward and back, so links
//! lead to every free chunk and every bin once, and to nothing else. Sums of numbers made of the addresses
//! tell that in one pass, in the order of memory.

use crate::Moment;

use super::{
    arena::Books,
    chunks::{Chunks, Mark},
    link_sums::LinkSums,
};

/// Where a chunk's links lie.
const NEXT: u64 = 16;
/// Free chunks that are followed one by one when the sums differ.
const MOST: u64 = 1 << 20;

/// How many free chunks and list members do not fit each other; at least 1 if any.
pub fn wrong(moment: &Moment<'_>, books: &Books, chunks: &Chunks, arena: u32) -> u64 {
    let mut sums = LinkSums::default();
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
