//! A thread that was stopped while it merges the chunks of fast bins (`malloc_consolidate`): it has taken the whole list
//! of a bin, and merges one chunk after another. Those that it has yet to merge are in no list, and their neighbours
//! think them in use.
//!
//! ```text
//! 1  the arena says that its fast bins are empty
//! 2  a list is exchanged for an empty one    the bin's place is in a register, until the next one's turn
//! 3  its chunks are merged, one by one       the next one is in a register or on the stack, in whatever form
//! ```
//!
//! The bin's place tells the size. Which chunks of it the list has is not certain: those at most whose link leads to
//! another one, or to nothing.

use crate::{Image, Moment, Thread, Window};

use super::{
    HEAD, Heap, SMALLEST,
    arena::Books,
    chunks::{Chunk, Mark, Segment},
    tls,
};

/// Words of a stack that are looked at: those of two functions.
const WORDS: u64 = 64;
/// Where a chunk's link lies.
const NEXT: u64 = 16;
/// So much is read at once.
const WINDOW: usize = 1 << 16;

/// Doubts each arena that a thread may be merging chunks in; links are mangled as caches say, if they do.
pub fn doubt(moment: &Moment<'_>, heap: &mut Heap, image: &Image, is_mangled: Option<bool>) {
    for index in 0..heap.arenas.len() {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let sizes = sizes(moment, &heap.arenas[index], image);
        let Some(largest) = sizes.last() else { continue };
        let segments = heap.chunks.segments.iter().filter(|segment| segment.arena == number);
        let most: u64 = segments.map(|own| count(moment, heap, own, &sizes, is_mangled)).sum();
        // One is in flight, as it is at any time.
        if most > 1 {
            let largest = largest - 8;
            let why = format!(
                "up to {most} free blocks of at most {largest} bytes count as in use: a thread was merging free blocks \
                 (look again)"
            );
            heap.walk.doubt(Some(number), why);
        }
    }
}

/// The sizes of the chunks whose bins a thread may have taken, ascending.
fn sizes(moment: &Moment<'_>, arena: &Books, image: &Image) -> Vec<u64> {
    let bins = arena.fast_at..arena.fast_at + (arena.fast.len() as u64) * 8;
    // One thread alone has them empty, and says so, before it begins; of several, another one may have filled them again.
    if bins.is_empty() || arena.has_fast == Some(true) && moment.threads().len() == 1 {
        return Vec::new();
    }
    let inside = moment.threads().iter().filter(|thread| tls::may_be_in_a_call(thread, image));
    let places = inside.flat_map(|thread| words(moment, thread));
    let places = places.filter(|word| bins.contains(word) && word.is_multiple_of(8));
    let mut sizes: Vec<u64> =
        places.map(|place| SMALLEST + HEAD * ((place - bins.start) / 8)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Registers, and the last words of the stack.
fn words(moment: &Moment<'_>, thread: &Thread) -> Vec<u64> {
    let places = (0..WORDS).filter_map(|word| thread.stack.checked_add(word * 8));
    thread.registers.iter().copied().chain(places.map_while(|at| moment.word(at))).collect()
}

/// The chunks of a segment that may be in such a list.
fn count(
    moment: &Moment<'_>,
    heap: &Heap,
    segment: &Segment,
    sizes: &[u64],
    is_mangled: Option<bool>,
) -> u64 {
    let mut window = Window::new(moment, segment.range.clone(), WINDOW);
    let is_one = |chunk: &Chunk| chunk.mark == Mark::Used && sizes.contains(&chunk.size);
    let mut count = 0;
    for chunk in segment.all().filter(is_one) {
        let place = chunk.at + NEXT;
        let Some(link) = window.word(place) else { continue };
        let leads_on = |is_mangled: bool| {
            let next = if is_mangled { link ^ (place >> 12) } else { link };
            let is_like = |next: Chunk| next.mark == Mark::Used && next.size == chunk.size;
            next == 0 || heap.chunks.find(next).is_some_and(|(_, next)| is_like(next))
        };
        let leads_on = match is_mangled {
            Some(is_mangled) => leads_on(is_mangled),
            None => leads_on(true) || leads_on(false),
        };
        count += u64::from(leads_on);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::synthetic_tests::{ARENA, BREAK, heap, walked};
    use crate::{Thread, Trust, synthetic::Synthetic};

    const CODE: u64 = 0x7000_0000_3ff0;
    const STACK: u64 = 0x7fff_0000_0000;
    /// Of chunks of 0x40 bytes.
    const BIN: u64 = ARENA + 0x10 + 16;

    /// Three chunks that lead to one another, and one in use that leads nowhere; a thread has this in a register.
    fn taken(register: u64) -> Synthetic {
        let mut memory = heap(&[0x40, 0x30, 0x40, 0x410, 0x40, 0x40, 0x20]);
        memory.region(STACK..STACK + 0x1000, crate::RegionKind::Stack, "[stack]");
        let chunks = [BREAK, BREAK + 0x70, BREAK + 0x4c0];
        for (chunk, next) in chunks.into_iter().zip([chunks[1], chunks[2], 0]) {
            memory.write(chunk + 16, ((chunk + 16) >> 12) ^ next);
        }
        memory.write(BREAK + 0x500 + 16, 0x5a5a_5a5a);
        let registers = vec![1, register];
        memory.threads = vec![Thread { code: CODE, stack: STACK, registers, ..Thread::default() }];
        memory
    }

    fn doubts(memory: &Synthetic) -> Vec<String> {
        match walked(memory).0.trust {
            Trust::Exact => Vec::new(),
            Trust::Inexact(doubts) => doubts.into_iter().map(|doubt| doubt.why).collect(),
        }
    }

    #[test]
    fn a_list_that_a_thread_has_taken_is_doubted_with_its_number() {
        let doubts = |memory: &Synthetic| doubts(memory).join("; ");
        let told = doubts(&taken(BIN));
        assert!(
            told.starts_with("up to 3 free blocks of at most 56 bytes count as in use"),
            "{told}"
        );
        // On its stack.
        let mut memory = taken(0);
        assert_eq!(doubts(&memory), "");
        memory.write(STACK + 0x48, BIN);
        assert_eq!(doubts(&memory), told);
    }

    #[test]
    fn what_is_not_being_merged_is_not_doubted() {
        // Another size; no place of a bin; the end of all.
        for register in [BIN + 8, BIN + 4, ARENA, ARENA + 0x60] {
            assert_eq!(doubts(&taken(register)), [""; 0], "{register:#x}");
        }
        let mut memory = taken(BIN);
        memory.write(ARENA + 8, 1);
        assert_eq!(doubts(&memory), [""; 0], "its fast bins have something");
        memory.write(ARENA + 8, 0);
        memory.threads[0].code = STACK;
        assert_eq!(doubts(&memory), [""; 0], "the thread is elsewhere");
    }
}
