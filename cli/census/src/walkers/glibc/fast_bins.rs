//! Fast bins: short lists of free chunks whose neighbours think them in use. Late releases have none.

use crate::Moment;

use super::{HEAD, Heap, SMALLEST, chunks::Mark};

/// Where a chunk's link lies.
const NEXT: u64 = 16;

/// Marks the chunks in them.
pub fn mark(moment: &Moment<'_>, heap: &mut Heap, is_mangled: bool) {
    for index in 0..heap.arenas.len() {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        for (bin, first) in heap.arenas[index].fast.clone().into_iter().enumerate() {
            if let Err(at) = follow(moment, heap, bin, first, is_mangled) {
                let why = format!("{at:#x} in a fast bin is not a chunk of its size: corrupted?");
                heap.walk.doubt(Some(number), why);
            }
        }
    }
}

/// Marks those of one list. A chunk that is marked already ends it: a hostile list could go round.
fn follow(
    moment: &Moment<'_>,
    heap: &mut Heap,
    bin: usize,
    first: u64,
    is_mangled: bool,
) -> Result<(), u64> {
    let mut at = first;
    while at != 0 {
        let (place, chunk) = heap.chunks.find(at).ok_or(at)?;
        if chunk.size != SMALLEST + HEAD * (bin as u64) || chunk.mark != Mark::Used {
            return Err(at);
        }
        heap.chunks.mark(place, Mark::Fast);
        let link = moment.word(at + NEXT).ok_or(at)?;
        at = if is_mangled { link ^ ((at + NEXT) >> 12) } else { link };
    }
    Ok(())
}
