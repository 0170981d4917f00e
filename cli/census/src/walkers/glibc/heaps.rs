//! The memory of the arenas besides the main one: heaps, each of which begins at a multiple of the largest
//! size that one can have, and names its arena and the heap before it.

use crate::{Check, Moment};

use super::{
    HEAD, Heap,
    chain::{self, Chain, Ending},
};

/// What heaps can begin at multiples of: 64 MiB, or less or more with huge pages.
const STEPS: [u64; 9] =
    [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20, 4 << 30];
/// No arena has more heaps.
const MOST: usize = 65_536;

/// Adds the segments of one arena.
pub fn add(moment: &Moment<'_>, heap: &mut Heap, index: usize) {
    let number = u32::try_from(index).unwrap_or(u32::MAX);
    let books = heap.arenas[index].clone();
    let Some(top) = books.top.clone() else {
        return heap.walk.doubt(Some(number), "it has no top: corrupted?".to_owned());
    };
    let is_heap = |step: &&u64| moment.word(top.start & !(**step - 1)) == Some(books.range.start);
    let Some(step) = STEPS.iter().find(is_heap).copied() else {
        return heap.walk.doubt(Some(number), "its heaps were not found: corrupted?".to_owned());
    };
    // What a heap begins with, before its arena or its first chunk.
    let header = books.range.start & (step - 1);
    let (mut at, mut bytes, mut count) = (top.start & !(step - 1), 0_u64, 0);
    while count < MOST {
        let words = moment.words(at, 3);
        let Some([arena, before, size]) = words.as_deref().and_then(|w| w.first_chunk()) else {
            return heap.walk.doubt(Some(number), format!("its heap at {at:#x} cannot be read"));
        };
        if *arena != books.range.start || *size > step || *size < header {
            let why = format!("the heap at {at:#x} is not of this arena: corrupted?");
            return heap.walk.doubt(Some(number), why);
        }
        let is_first = *before == 0;
        let start = match is_first {
            true => books.range.end.next_multiple_of(HEAD),
            false => at + header,
        };
        let whole = at..at + size;
        let end = if count == 0 { top.start } else { whole.end };
        let Chain { mut segment, at: stopped, ending } =
            chain::follow(moment, &(start..end), count == 0, number);
        let is_sound = match ending {
            Ending::Arrived => count == 0 && top.end == whole.end,
            Ending::Fence => count > 0,
            Ending::Broken(_) | Ending::Unreadable => false,
        };
        if !is_sound {
            heap.walk.doubt(Some(number), told(ending, stopped));
        }
        bytes = bytes.saturating_add(*size);
        segment.whole = whole;
        heap.chunks.segments.push(segment);
        count += 1;
        // A hostile chain of heaps could go round.
        if is_first || *before == at || !before.is_multiple_of(step) {
            break;
        }
        at = *before;
    }
    let what = "bytes of the heaps of an arena, and what it had from the system";
    let slack = heap.walk.in_flight * (1 << 20);
    heap.walk.check(Some(number), Check { what, found: bytes, told: books.system, slack });
}

/// How a chain ended that should not.
fn told(ending: Ending, at: u64) -> String {
    match ending {
        Ending::Broken(size) => format!("the chunk at {at:#x} has size {size}: corrupted?"),
        Ending::Unreadable => format!("its memory at {at:#x} cannot be read"),
        Ending::Arrived | Ending::Fence => {
            format!("its chain of chunks ends at {at:#x}: corrupted?")
        }
    }
}
