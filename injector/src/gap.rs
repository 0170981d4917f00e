//! Where our home goes: a free range near the code it must reach.

use std::ops::Range;

use crate::{addr::RemoteAddr, home::PAGE, proc::maps::Mapping};

/// How far a branch with a 32-bit displacement reaches, with room to spare for the home itself.
const REACH: u64 = (2 << 30) - (64 << 20);

/// Free room that is left on both sides, so that the kernel does not merge our mapping with a
/// neighbour of the same kind.
const MARGIN: u64 = 4 * PAGE;

/// The kernel keeps this much free below a stack, and so do we.
const STACK_GUARD: u64 = 2 << 20;

/// How far the heap may grow.
const HEAP: u64 = 1 << 30;

/// The free range of `length` bytes that lies closest to `code`, within reach of all of it. `heap` is
/// where a heap begins that may have no page yet.
pub fn find(
    maps: &[Mapping<'_>],
    code: &Range<RemoteAddr>,
    length: u64,
    heap: Option<u64>,
) -> Option<RemoteAddr> {
    let free = maps.windows(2).filter_map(|pair| {
        let (below, above) = (&pair[0], &pair[1]);
        let is_stack = above.label().as_encoded_bytes().starts_with(b"[stack");
        let guard = if is_stack { STACK_GUARD } else { MARGIN };
        // The heap grows up into the gap above it.
        let is_heap = below.label() == "[heap]";
        let start = below.range.end.get() + if is_heap { HEAP } else { MARGIN };
        Some((start, above.range.start.get().checked_sub(guard)?))
    });
    let edges =
        free.flat_map(|(start, end)| match heap.filter(|heap| (start..end).contains(heap)) {
            Some(heap) => [(start, heap - MARGIN), (heap.saturating_add(HEAP), end)],
            None => [(start, end), (0, 0)],
        });
    let edges =
        edges.filter(|(start, end)| end.checked_sub(*start).is_some_and(|room| room >= length));
    let candidates = edges.flat_map(|(start, end)| [start, end - length]);
    let reaches = |at: &u64| {
        let (low, high) = (*at.min(&code.start.get()), (at + length).max(code.end.get()));
        high - low < REACH
    };
    let distance = |at: &u64| at.abs_diff(code.start.get());
    candidates.filter(reaches).min_by_key(distance).map(RemoteAddr::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::maps::parse;

    const MAPS: &[u8] = b"400000-500000 r-xp 0 0:0 1 /exe\n\
        600000-700000 rw-p 0 0:0 0 [heap]\n\
        7f0000000000-7f0000100000 r-xp 0 0:0 2 /libc\n\
        7f0000110000-7f0000111000 rw-p 0 0:0 0 \n\
        7f0000200000-7f0000300000 rw-p 0 0:0 0 [stack]\n";

    fn place(low: u64, high: u64, length: u64) -> Option<u64> {
        let maps = parse(MAPS).unwrap();
        find(&maps, &(RemoteAddr::new(low)..RemoteAddr::new(high)), length, None)
            .map(RemoteAddr::get)
    }

    #[test]
    fn leaves_room_for_a_heap_that_has_no_page_yet() {
        let maps = parse(
            b"400000-500000 r-xp 0 0:0 1 /exe\n\
            7f0000110000-7f0000111000 rw-p 0 0:0 0 \n",
        )
        .unwrap();
        let code = RemoteAddr::new(0x40_0000)..RemoteAddr::new(0x40_1000);
        let place = |heap| find(&maps, &code, 0x1_0000, heap).map(RemoteAddr::get);
        assert_eq!(place(None), Some(0x50_4000));
        assert_eq!(place(Some(0x60_0000)), Some(0x50_4000));
        assert_eq!(place(Some(0x50_5000)), Some(0x50_5000 + HEAP));
    }

    #[test]
    fn takes_the_closest_gap_with_a_margin() {
        assert_eq!(place(0x7f00_0000_1000, 0x7f00_0000_2000, 0x1000), Some(0x7effffffb000));
        assert_eq!(place(0x7f00_000f_f000, 0x7f00_000f_f100, 0x1000), Some(0x7f00_0010_4000));
    }

    #[test]
    fn gives_up_when_nothing_is_in_reach() {
        assert_eq!(place(0x40_0000, 0x7f00_0000_2000, 0x1000), None);
    }
}
