//! Whether bins and free chunks fit each other: all lists are rings of links forward and back, so links
//! lead to every free chunk and every bin once, and to nothing else. Sums of numbers made of the addresses
//! tell that in one pass, in the order of memory.

use crate::{Moment, Window};

use super::{
    arena::Books,
    chunks::{Chunks, Mark},
};

/// So much is read at once.
const WINDOW: usize = 1 << 20;
/// Where a chunk's links lie.
const NEXT: u64 = 16;
/// Free chunks that are followed one by one when the sums differ.
const MOST: u64 = 1 << 20;

/// How many free chunks and list members do not fit each other; at least 1 if any.
pub fn wrong(moment: &Moment<'_>, books: &Books, chunks: &Chunks, arena: u32) -> u64 {
    let (mut places, mut next, mut previous) = (0_u64, 0_u64, 0_u64);
    for bin in 0..books.bins() {
        places = places.wrapping_add(mixed(books.bin(bin)));
        next = next.wrapping_add(mixed(books.links[2 * bin]));
        previous = previous.wrapping_add(mixed(books.links[2 * bin + 1]));
    }
    for segment in chunks.segments.iter().filter(|segment| segment.arena == arena) {
        let mut window = Window::new(moment, segment.range.clone(), WINDOW);
        for chunk in segment.all().filter(|chunk| chunk.mark == Mark::Free) {
            let Some((forth, back)) = window.pair(chunk.at + NEXT) else { return 1 };
            places = places.wrapping_add(mixed(chunk.at));
            next = next.wrapping_add(mixed(forth));
            previous = previous.wrapping_add(mixed(back));
        }
    }
    if places == next && places == previous {
        return 0;
    }
    counted(moment, books, chunks, arena).max(1)
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
