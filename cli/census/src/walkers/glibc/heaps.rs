//! The memory of the arenas besides the main one: heaps, each of which begins at a multiple of the largest
//! size that one can have, and names its arena and the heap before it.

use crate::{Check, Moment};

use super::{
    HEAD, Heap, PAGE, cause,
    chain::{self, Chain, Ending},
};

/// What heaps can begin at multiples of: 64 MiB, or less or more with huge pages.
const STEPS: [u64; 9] =
    [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20, 4 << 30];
/// No heap is larger, and no arena has more of them.
const LARGEST: u64 = 4 << 30;
const MOST: usize = 65_536;
/// What a heap begins with is not longer.
const LONGEST_HEADER: u64 = 0x100;

/// A heap.
struct OneHeap {
    at: u64,
    size: u64,
}

/// Adds the segments of one arena.
pub fn add(moment: &Moment<'_>, heap: &mut Heap, index: usize) {
    let number = u32::try_from(index).unwrap_or(u32::MAX);
    if let Err(why) = try_to_add(moment, heap, index, number) {
        let why = format!("{why}: {}", heap.cause());
        heap.walk.doubt(Some(number), why);
    }
}

fn try_to_add(
    moment: &Moment<'_>,
    heap: &mut Heap,
    index: usize,
    number: u32,
) -> Result<(), String> {
    let books = heap.arenas[index].clone();
    let top = books.top.clone().ok_or("it has no top")?;
    let all = heaps(moment, books.range.start, top.start)?;
    // What a heap begins with, before its arena or its first chunk.
    let first = all.last().map_or(0, |first| first.at);
    let header = books.range.start.checked_sub(first).filter(|header| *header <= LONGEST_HEADER);
    let header = header.ok_or("it does not lie in its first heap")?;
    let is_changing = heap.walk.in_flight > 0;
    let rest = books.rest().filter(|_| is_changing);
    let mut bytes = 0_u64;
    for (count, OneHeap { at, size }) in all.iter().enumerate() {
        let start = match *at == first {
            true => books.range.end.next_multiple_of(HEAD),
            false => at + header,
        };
        let (whole, is_top) = (*at..at + size, count == 0);
        let end = if is_top { top.start } else { whole.end };
        let mut chain = chain::follow_changing(moment, &(start..end), is_top, number, rest);
        if is_changing {
            chain.end_at_top(end, whole.end);
        }
        let Chain { mut segment, at: stopped, ending } = chain;
        let is_sound = match ending {
            Ending::Arrived => (is_top && top.end == whole.end) || is_changing,
            Ending::Fence => !is_top,
            Ending::Broken(_) | Ending::Unreadable => false,
        };
        if !is_sound {
            heap.walk.doubt(Some(number), told(ending, stopped, is_changing));
        } else if is_top {
            // Its head may not be written yet.
            heap.arenas[index].top = Some(top.start..whole.end);
        }
        bytes = bytes.saturating_add(*size);
        segment.whole = whole;
        heap.chunks.segments.push(segment);
    }
    let what = "bytes of the heaps of an arena, and what it had from the system";
    let slack = heap.walk.in_flight * (1 << 20);
    heap.walk.check(Some(number), Check { what, found: bytes, told: books.system, slack });
    Ok(())
}

/// The heaps of an arena, from that of its top to its first.
fn heaps(moment: &Moment<'_>, arena: u64, top: u64) -> Result<Vec<OneHeap>, String> {
    let bases = STEPS.iter().map(|step| top & !(step - 1));
    let mut at = bases
        .into_iter()
        .find(|&base| moment.word(base) == Some(arena))
        .ok_or("its heaps were not found")?;
    let mut all = Vec::new();
    loop {
        let words = moment.words(at, 3);
        let Some([own, before, size]) = words.as_deref().and_then(|words| words.first_chunk())
        else {
            return Err(format!("its heap at {at:#x} cannot be read"));
        };
        if *own != arena || *size > LARGEST || !size.is_multiple_of(PAGE) {
            return Err(format!("the heap at {at:#x} is not of this arena"));
        }
        all.push(OneHeap { at, size: *size });
        if *before == 0 {
            return Ok(all);
        }
        // A hostile chain of heaps could go round.
        if all.len() >= MOST || !before.is_multiple_of(STEPS[0]) || *before == at {
            return Err(format!("the heap at {at:#x} follows no other"));
        }
        at = *before;
    }
}

/// How a chain ended that should not.
fn told(ending: Ending, at: u64, is_changing: bool) -> String {
    let cause = cause(is_changing);
    match ending {
        Ending::Broken(size) => format!("the chunk at {at:#x} has size {size}: {cause}"),
        Ending::Unreadable => format!("its memory at {at:#x} cannot be read"),
        Ending::Arrived | Ending::Fence => {
            format!("its chain of chunks ends at {at:#x}: {cause}")
        }
    }
}
