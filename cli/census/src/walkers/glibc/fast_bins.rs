//! Fast bins: short lists of free chunks whose neighbours think them in use. Late releases have none.

use crate::Moment;

use super::{
    HEAD, Heap, SMALLEST,
    chunks::{Mark, Place},
};

/// Where a chunk's link lies.
const NEXT: u64 = 16;
/// No list is longer.
const MOST: usize = 1 << 24;

/// Marks the chunks in them; `is_mangled` as caches say, if they do.
pub fn mark(moment: &Moment<'_>, heap: &mut Heap, is_mangled: Option<bool>) -> bool {
    let broken = |is_mangled: &bool| -> usize {
        let firsts = heap.arenas.iter().flat_map(|arena| arena.fast.iter().enumerate());
        let lists = firsts.map(|(bin, first)| list(moment, heap, bin, *first, *is_mangled));
        lists.filter(Result::is_err).count()
    };
    let is_mangled = is_mangled.unwrap_or_else(|| broken(&true) <= broken(&false));
    for index in 0..heap.arenas.len() {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        for (bin, first) in heap.arenas[index].fast.clone().into_iter().enumerate() {
            match list(moment, heap, bin, first, is_mangled) {
                Ok(places) => places.into_iter().for_each(|at| heap.chunks.mark(at, Mark::Fast)),
                Err(at) => {
                    let cause = heap.cause();
                    let why = format!("{at:#x} in a fast bin is not a chunk of its size: {cause}");
                    heap.walk.doubt(Some(number), why);
                }
            }
        }
    }
    is_mangled
}

/// The chunks of one list.
fn list(
    moment: &Moment<'_>,
    heap: &Heap,
    bin: usize,
    first: u64,
    is_mangled: bool,
) -> Result<Vec<Place>, u64> {
    let (mut at, mut places) = (first, Vec::new());
    while at != 0 {
        let (place, chunk) = heap.chunks.find(at).ok_or(at)?;
        let fits = chunk.size == SMALLEST + HEAD * (bin as u64) && chunk.mark == Mark::Used;
        // A hostile list could go round.
        if !fits || places.len() >= MOST {
            return Err(at);
        }
        places.push(place);
        let link = moment.word(at + NEXT).ok_or(at)?;
        at = if is_mangled { link ^ ((at + NEXT) >> 12) } else { link };
    }
    Ok(places)
}
