//! A small heap made word by word, as glibc 2.36 lays it out: what is right is told, what was corrupted is
//! named, and whatever the bytes are, a walk ends.

use proptest::prelude::*;

use super::{Glibc, HEAD, SMALLEST};
use crate::{Answer, Block, RegionKind, State, Trust, Walk, Walker, synthetic::Synthetic};

const DATA: u64 = 0x7000_0000_0000;
const DATA_END: u64 = DATA + 0x4000;
pub(super) const ARENA: u64 = DATA + 0x1000;
pub(super) const BINS: u64 = ARENA + 0x70;
const PARAMETERS: u64 = DATA + 0x100;
pub(super) const BREAK: u64 = 0x5555_0000_0000;
pub(super) const BREAK_END: u64 = BREAK + 0x21000;

/// A heap of chunks of these sizes; a negative one is free, and in the unsorted bin.
pub(super) fn heap(sizes: &[i64]) -> Synthetic {
    let mut memory = Synthetic::default();
    memory.region(BREAK..BREAK_END, RegionKind::Break, "[heap]");
    memory.region(DATA..DATA_END, RegionKind::File, "/lib/libc.so.6");
    for bin in 0..127 {
        let at = BINS + bin * 16;
        memory.write(at, at - HEAD);
        memory.write(at + 8, at - HEAD);
    }
    let mut at = BREAK;
    let mut before_in_use = 1;
    let mut last = BINS - HEAD;
    for &size in sizes {
        let bytes = size.unsigned_abs();
        memory.write(at + 8, bytes | before_in_use);
        before_in_use = u64::from(size > 0);
        if size < 0 {
            memory.write(last + 16, at);
            memory.write(at + 24, last);
            memory.write(at + 16, BINS - HEAD);
            memory.write(BINS + 8, at);
            last = at;
        }
        at += bytes;
    }
    memory.write(at + 8, (BREAK_END - at) | before_in_use);
    memory.write(BINS - 0x10, at);
    memory.write(BINS + 0x800, ARENA);
    memory.write(BINS + 0x818, BREAK_END - BREAK);
    // mp_: n_mmaps_max above n_mmaps, sbrk_base, tcache_bins, tcache_max_bytes, tcache_count.
    memory.write(PARAMETERS - 0x20, 65_536);
    for (offset, word) in [(0, BREAK), (8, 64), (16, 1032), (24, 7)] {
        memory.write(PARAMETERS + offset, word);
    }
    memory
}

fn walk(memory: &Synthetic) -> (Answer, Vec<Block>) {
    let mut blocks = Vec::new();
    (Glibc.walk(&memory.moment(), &mut blocks), blocks)
}

pub(super) fn walked(memory: &Synthetic) -> (Walk, Vec<Block>) {
    match walk(memory) {
        (Answer::Walked(walk), blocks) => (walk, blocks),
        (other, _) => panic!("{other:?}"),
    }
}

const SIZES: [i64; 7] = [0x30, -0x50, 0x410, 0x20, -0x100, 0x20, 0x60];

#[test]
fn every_block_is_told_with_its_size_and_state() {
    let (walk, blocks) = walked(&heap(&SIZES));
    assert!(walk.is_exact(), "{walk:#?}");
    let told: Vec<(u64, bool)> =
        blocks.iter().map(|block| (block.size, block.state == State::Used)).collect();
    let expected = SIZES.map(|size| (size.unsigned_abs() - 8, size > 0));
    assert_eq!(told, expected);
    assert_eq!(blocks[0].at, BREAK + HEAD);
    let bytes = walk.bytes();
    assert_eq!((bytes.used_blocks, bytes.free_blocks), (5, 2));
    assert_eq!(bytes.all(), BREAK_END - BREAK, "{bytes:?}");
}

#[test]
fn a_chunk_of_no_size_is_named_with_its_arena() {
    let mut memory = heap(&SIZES);
    memory.write(BREAK + 0x80 + 8, 0x18 | 1);
    let (walk, _) = walked(&memory);
    let Trust::Inexact(doubts) = &walk.trust else { panic!("{walk:#?}") };
    assert!(doubts.iter().any(|doubt| doubt.arena == Some(0)), "{doubts:?}");
}

/// A heap as it is while a thread cuts a block off its top.
fn cut(top: u64, cut: u64) -> Synthetic {
    let mut memory = heap(&SIZES);
    memory.write(ARENA, 1);
    memory.write(BINS - 0x10, top + cut);
    memory
}

#[test]
fn a_thread_amid_a_change_of_the_top_is_no_corruption() {
    let top = BREAK + SIZES.iter().map(|size| size.unsigned_abs()).sum::<u64>();
    let untouched = heap(&SIZES);
    let mut whole = cut(top, 0);
    let mut head_is_old = cut(top, 0x40);
    // The block's head tells its size; that of the rest is not written yet.
    let mut head_is_new = cut(top, 0x40);
    head_is_new.write(top + 8, 0x40 | 1);
    // A block is given to the top, which begins at the old place still.
    let mut given = cut(top, 0);
    given.write(top - 0x60 + 8, (BREAK_END - top + 0x60) | 1);
    for memory in
        [untouched, whole.clone(), head_is_old.clone(), head_is_new.clone(), given.clone()]
    {
        let (walk, blocks) = walked(&memory);
        assert!(walk.is_exact(), "{walk:#?}");
        assert!(blocks.len().abs_diff(SIZES.len()) <= 1, "{blocks:?}");
        assert_eq!(walk.bytes().all(), BREAK_END - BREAK, "{walk:#?}");
    }
    // No thread is amid a change: then it is one.
    for memory in [&mut head_is_old, &mut head_is_new, &mut given] {
        memory.write(ARENA, 0);
        assert!(!walked(memory).0.is_exact());
    }
    whole.write(ARENA, 0);
    assert!(walked(&whole).0.is_exact());
}

#[test]
fn a_free_chunk_that_no_bin_has_is_noticed() {
    let mut memory = heap(&SIZES);
    // The bin is emptied.
    memory.write(BINS, BINS - HEAD);
    memory.write(BINS + 8, BINS - HEAD);
    let (walk, _) = walked(&memory);
    assert!(!walk.is_exact(), "{walk:#?}");
}

#[test]
fn a_bin_that_goes_round_ends() {
    let mut memory = heap(&SIZES);
    let free = BREAK + 0x30;
    memory.write(free + 16, free);
    assert!(!walked(&memory).0.is_exact());
}

#[test]
fn without_its_books_it_is_absent() {
    let mut memory = Synthetic::default();
    memory.region(DATA..DATA_END, RegionKind::File, "/lib/libc.so.6");
    memory.write(DATA, 1);
    assert_eq!(walk(&memory).0, Answer::Absent);
}

#[test]
fn a_ring_of_arenas_that_does_not_close_is_refused_and_no_block_told() {
    let mut memory = heap(&SIZES);
    memory.write(BINS + 0x800, BREAK);
    let (answer, blocks) = walk(&memory);
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
    assert!(blocks.is_empty());
}

/// Words that are likely to be misread.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0_u64..0x4000).prop_map(|offset| BREAK + offset * 16),
        (0_u64..0x800).prop_map(|offset| DATA + offset * 8),
        0_u64..0x500,
        Just(u64::MAX),
        Just(!15),
        Just(1 << 63),
        Just(BREAK_END - BREAK),
    ]
}

/// Where a word is written: the chain, the books, or before them.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0_u64..0x100).prop_map(|word| BREAK + word * 8),
        (0_u64..0x100).prop_map(|word| BINS - 0x100 + word * 8),
        Just(BINS - 0x10),
        Just(BINS + 0x800),
        Just(BINS + 0x818),
        (0_u64..8).prop_map(|word| PARAMETERS - 0x28 + word * 8),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn whatever_the_bytes_are_a_walk_ends(
        sizes in prop::collection::vec((2_i64..40, any::<bool>()), 0..40),
        changes in prop::collection::vec((place(), word()), 1..12),
    ) {
        let sizes = sizes.into_iter().map(|(size, is_free)| if is_free { -size * 16 } else { size * 16 });
        let sizes: Vec<i64> = sizes.collect();
        let mut memory = heap(&sizes);
        changes.into_iter().for_each(|(at, word)| memory.write(at, word));
        let (answer, blocks) = walk(&memory);
        if let Answer::Walked(walk) = answer {
            let bytes = walk.bytes();
            let told = bytes.used_blocks + bytes.free_blocks + bytes.cached_blocks;
            prop_assert_eq!(told, blocks.len() as u64);
        }
        // No two overlap, whatever was read.
        let mut sorted = blocks;
        sorted.sort_by_key(|block| block.at);
        for pair in sorted.windows(2) {
            prop_assert!(pair[0].at + pair[0].size <= pair[1].at + HEAD, "{:x?}", pair);
        }
    }

    #[test]
    fn a_sound_heap_is_told_exactly(
        sizes in prop::collection::vec((2_u64..60, any::<bool>()), 1..60),
    ) {
        let mut before = true;
        let mut all: Vec<i64> = Vec::new();
        for (size, is_free) in sizes {
            // Two free neighbours would be one.
            before = !is_free || !before;
            let size = i64::try_from(size * 16).unwrap_or(32);
            all.push(if before { size } else { -size });
        }
        let (walk, blocks) = walked(&heap(&all));
        prop_assert!(walk.is_exact(), "{walk:#?}");
        let used = blocks.iter().filter(|block| block.state == State::Used).count();
        prop_assert_eq!(used, all.iter().filter(|size| **size > 0).count());
        prop_assert!(blocks.iter().all(|block| block.size >= SMALLEST - 8));
    }
}
