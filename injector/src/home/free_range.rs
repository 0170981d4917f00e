//! Where our home goes: free ranges near the code it must reach.
//!
//! What looks free may not be: the map does not tell what the kernel reserves, and other threads of
//! ours or of the machine may come first. So several places are offered, the closest first.

use std::ops::Range;

use crate::{arch, home::PAGE};
use heapattach_process::{addr::RemoteAddr, proc::maps::Mapping};

/// How far a branch with a 32-bit displacement reaches, with room to spare for the home itself.
const REACH: u64 = (2 << 30) - (64 << 20);

/// Free room that is left on both sides, so that the kernel does not merge our mapping with a
/// neighbour of the same kind.
const MARGIN: u64 = 4 * PAGE;

/// The kernel keeps at least this much free below the stack of the first thread, for it to grow into,
/// and so do we.
const STACK_ROOM: u64 = 128 << 20;

/// How far the heap may grow.
const HEAP: u64 = 1 << 30;

/// So many places are offered at most.
const MOST: usize = 8;

/// Free ranges of `length` bytes within reach of all of `code`, the closest first. `heap` is where a
/// heap begins that may have no page yet.
pub fn places(
    maps: &[Mapping<'_>],
    code: &Range<RemoteAddr>,
    length: u64,
    heap: Option<u64>,
) -> Vec<RemoteAddr> {
    let edges = free(maps).flat_map(|(start, end)| {
        // A heap that has no page yet will grow up from its start.
        match heap.filter(|heap| (start..end).contains(heap)) {
            Some(heap) => [(start, heap.saturating_sub(MARGIN)), (heap.saturating_add(HEAP), end)],
            None => [(start, end), (0, 0)],
        }
    });
    let edges =
        edges.filter(|(start, end)| end.checked_sub(*start).is_some_and(|room| room >= length));
    let reaches = |at: &u64| {
        let (low, high) = (*at.min(&code.start.get()), (at + length).max(code.end.get()));
        high - low < REACH
    };
    let candidates = edges.flat_map(|(start, end)| [start, end - length]).filter(reaches);
    let mut places: Vec<u64> = candidates.collect();
    places.sort_by_key(|at| at.abs_diff(code.start.get()));
    places.dedup();
    places.truncate(MOST);
    places.into_iter().map(RemoteAddr::new).collect()
}

/// What lies free between mappings, less the room that those need to grow. What lies above the end of
/// user space (`[vsyscall]`) is no neighbour of anything.
fn free<'m>(maps: &'m [Mapping<'_>]) -> impl Iterator<Item = (u64, u64)> + 'm {
    maps.windows(2).filter_map(|pair| {
        let (below, above) = (&pair[0], &pair[1]);
        let is_stack = above.label().as_encoded_bytes().starts_with(b"[stack");
        let guard = if is_stack { STACK_ROOM } else { MARGIN };
        // The heap grows up into the gap above it.
        let is_heap = below.label() == "[heap]";
        let start = below.range.end.get() + if is_heap { HEAP } else { MARGIN };
        let end = above.range.start.get().min(arch::USER_SPACE_END);
        Some((start, end.checked_sub(guard)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_process::proc::maps::parse;

    const MAPS: &[u8] = b"400000-500000 r-xp 0 0:0 1 /exe\n\
        600000-700000 rw-p 0 0:0 0 [heap]\n\
        7f0000000000-7f0000100000 r-xp 0 0:0 2 /libc\n\
        7f0000110000-7f0000111000 rw-p 0 0:0 0 \n\
        7f0008200000-7f0008300000 rw-p 0 0:0 0 [stack]\n";

    fn place(low: u64, high: u64, length: u64) -> Option<u64> {
        let maps = parse(MAPS).unwrap();
        let code = RemoteAddr::new(low)..RemoteAddr::new(high);
        places(&maps, &code, length, None).first().map(|at| at.get())
    }

    #[test]
    fn leaves_room_for_a_heap_that_has_no_page_yet() {
        let maps = parse(
            b"400000-500000 r-xp 0 0:0 1 /exe\n\
            7f0000110000-7f0000111000 rw-p 0 0:0 0 \n",
        )
        .unwrap();
        let code = RemoteAddr::new(0x40_0000)..RemoteAddr::new(0x40_1000);
        let place =
            |heap| places(&maps, &code, 0x1_0000, heap).first().copied().map(RemoteAddr::get);
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

    /// A program without address randomisation: libraries up to the stack, and the stack up to the
    /// end of user space.
    const NOT_RANDOM: &[u8] = b"555555554000-555555558000 r-xp 0 0:0 1 /exe\n\
        7ffff7c00000-7ffff7e00000 r-xp 0 0:0 2 /libc\n\
        7ffff7fcb000-7ffff7fff000 r-xp 0 0:0 3 /ld.so\n\
        7ffffffde000-7ffffffff000 rw-p 0 0:0 0 [stack]\n\
        ffffffffff600000-ffffffffff601000 --xp 0 0:0 0 [vsyscall]\n";

    #[test]
    fn nothing_above_user_space_is_offered_and_nothing_that_a_stack_grows_into() {
        let maps = parse(NOT_RANDOM).unwrap();
        let code = RemoteAddr::new(0x7fff_f7c0_0000)..RemoteAddr::new(0x7fff_f7c8_0000);
        for length in [0x1_0000, 0x400_0000, 0xea0_0000] {
            let places = places(&maps, &code, length, None);
            assert!(!places.is_empty(), "no place for {length:#x}");
            for at in places {
                let end = at.get() + length;
                assert!(end <= 0x7fff_fffd_e000 - STACK_ROOM, "{at} to {end:#x}");
            }
        }
        // Nor where the stack is not known by its name, or not there.
        for map in [&b"[stack]\n"[..], b"7ffffffde000-7ffffffff000 rw-p 0 0:0 0 [stack]\n"] {
            let text = String::from_utf8_lossy(NOT_RANDOM);
            let text = text.replace(str::from_utf8(map).unwrap(), "\n");
            let maps = parse(text.as_bytes()).unwrap();
            let places = places(&maps, &code, 0x1_0000, None);
            let ends = places.iter().map(|at| at.get() + 0x1_0000);
            assert!(ends.into_iter().all(|end| end <= 0x7fff_ffff_f000), "{places:x?}");
        }
    }

    #[test]
    fn several_places_are_offered_the_closest_first() {
        let maps = parse(NOT_RANDOM).unwrap();
        let code = RemoteAddr::new(0x7fff_f7c0_0000)..RemoteAddr::new(0x7fff_f7c8_0000);
        let places = places(&maps, &code, 0x1_0000, None);
        let distances: Vec<u64> =
            places.iter().map(|at| at.get().abs_diff(code.start.get())).collect();
        assert!(places.len() > 1 && places.len() <= MOST && distances.is_sorted(), "{places:x?}");
    }
}
