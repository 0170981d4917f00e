//! A small heap made word by word: what is right is told, what was corrupted is named, and whatever the bytes
//! are, a walk ends.

use proptest::prelude::*;

use super::{BINS, CHUNK, PAGE, Zend};
use crate::{
    Answer, Block, RegionKind, State, Trust, Walk, Walker, census::Census, synthetic::Synthetic,
};

const MAIN: u64 = 0x7f00_0040_0000;
const OTHER: u64 = MAIN + CHUNK;
const KEPT: u64 = MAIN + 2 * CHUNK;
const HUGE: u64 = MAIN + 4 * CHUNK;
const BOOKS: u64 = MAIN + 64;
/// Words of the books: lists of free blocks, then what the system gave, and what leads to the first chunk.
const LISTS: u64 = 4;
const REAL: u64 = LISTS + 30;
const OWN: u64 = REAL + 5;
const MAP: u64 = 64 + (OWN + 6) * 8 + 64;
const RUN: u64 = MAIN + PAGE;

fn half(memory: &mut Synthetic, at: u64, number: u32) {
    memory.write_bytes(at, &number.to_le_bytes());
}

/// The books of a chunk: entries of the map from its second page on; what is 0 is free.
fn chunk(memory: &mut Synthetic, at: u64, links: [u64; 2], entries: &[u32]) {
    memory.write(at, BOOKS);
    memory.write(at + 8, links[0]);
    memory.write(at + 16, links[1]);
    let (mut bits, mut used) = (1_u64, 1_u32);
    half(memory, at + MAP, 1 << 30 | 1);
    for (page, entry) in (1..).zip(entries) {
        half(memory, at + MAP + page * 4, *entry);
        bits |= u64::from(*entry != 0) << page;
        used += u32::from(*entry != 0);
    }
    memory.write(at + MAP - 64, bits);
    half(memory, at + 24, 512 - used);
}

/// A run of 24 bytes a block, one of five pages, a block of two pages; a chunk with a block of a page, one that
/// is kept, a huge block.
fn heap() -> Synthetic {
    let mut memory = Synthetic::default();
    memory.map(MAIN..HUGE + CHUNK + PAGE);
    let goes_on = |page: u32| 3 << 30 | page << 16 | 16;
    let run = [1 << 31 | 16, goes_on(1), goes_on(2), goes_on(3), goes_on(4)];
    // The second page of a large block has what was there before.
    let entries = [&[1 << 31 | 2][..], &run, &[0, 1 << 30 | 2, 7, 0]].concat();
    chunk(&mut memory, MAIN, [OTHER, OTHER], &entries);
    chunk(&mut memory, OTHER, [MAIN, MAIN], &[0, 0, 1 << 30 | 1]);
    memory.write(KEPT, BOOKS);
    let node = RUN + 2 * 24;
    let huge = CHUNK + PAGE;
    [HUGE, huge, 0].into_iter().zip(0..).for_each(|(word, at)| memory.write(node + at * 8, word));
    // Of 170 blocks all but two are in use, of 64 none but the first.
    memory.write(BOOKS + (LISTS + 2) * 8, RUN);
    memory.write(RUN, RUN + 169 * 24);
    let second = MAIN + 2 * PAGE;
    memory.write(BOOKS + (LISTS + 16) * 8, second + 320);
    (1..63).for_each(|at| memory.write(second + at * 320, second + (at + 1) * 320));
    let used = 168 * 24 + 320 + 2 * PAGE + PAGE + huge;
    memory.write(BOOKS + 16, used);
    memory.write(BOOKS + 24, used);
    let real = 3 * CHUNK + huge;
    [real, real, 128 << 20, 0, node, MAIN, KEPT, 2 | 3 << 32, 1]
        .into_iter()
        .zip(REAL..)
        .for_each(|(word, at)| memory.write(BOOKS + at * 8, word));
    memory
}

fn walked(memory: &Synthetic) -> (Walk, Vec<Block>) {
    let mut blocks = Vec::new();
    match Zend.walk(&memory.moment(), &mut blocks) {
        Answer::Walked(walk) => (walk, blocks),
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_in_use_and_free_ones_are_told() {
    let (walk, blocks) = walked(&heap());
    assert_eq!(walk.trust, Trust::Exact, "{walk:?}");
    let of = |state, size| {
        blocks.iter().filter(|block| block.state == state && block.size == size).count()
    };
    assert_eq!([of(State::Used, 24), of(State::Free, 24)], [168, 2]);
    assert_eq!([of(State::Used, 320), of(State::Free, 320)], [1, 63]);
    assert_eq!([of(State::Used, PAGE), of(State::Used, 2 * PAGE)], [1, 1]);
    assert_eq!(of(State::Used, CHUNK + PAGE), 1);
    let bytes = walk.bytes();
    assert_eq!(bytes.all(), 4 * CHUNK + PAGE);
    assert_eq!(walk.arenas[0].system, Some(bytes.all()));
}

/// 8.4 has a key before its lists.
#[test]
fn a_word_more_before_the_lists_is_noticed() {
    let mut memory = heap();
    let words: Vec<u64> = {
        let moment = memory.moment();
        moment.words(BOOKS, 48).unwrap()
    };
    for (at, word) in (LISTS + 1..).zip(&words[4..44]) {
        memory.write(BOOKS + at * 8, *word);
    }
    memory.write(BOOKS + LISTS * 8, 0x1234_5678_9abc_def0);
    let (walk, blocks) = walked(&memory);
    assert_eq!(walk.trust, Trust::Exact, "{walk:?}");
    assert_eq!(blocks.len(), 170 + 64 + 3);
}

#[test]
fn what_was_overwritten_is_named() {
    let wrong: [(u64, u64); 8] = [
        // The count of bytes, a list in a circle, one that leads elsewhere, what the system gave, huge blocks, the
        // circle of chunks, a chunk's bitmap, the length of a large block.
        (BOOKS + 16, 1),
        (RUN + 169 * 24, RUN),
        (RUN, RUN + 8),
        (BOOKS + REAL * 8, CHUNK),
        (RUN + 48, HUGE + PAGE),
        (OTHER + 8, OTHER),
        (OTHER + MAP - 64, 0xff),
        (OTHER + MAP + 8, 0x4000_03ff_0000_0000),
    ];
    for (at, word) in wrong {
        let mut memory = heap();
        memory.write(at, word);
        let (walk, _) = walked(&memory);
        assert!(!walk.is_exact(), "{at:#x}: {walk:?}");
    }
}

#[test]
fn memory_without_books_has_no_such_heap() {
    let mut memory = Synthetic::default();
    memory.map(MAIN..HUGE);
    memory.write(MAIN, BOOKS);
    assert_eq!(Zend.walk(&memory.moment(), &mut ()), Answer::Absent);
    let mut memory = heap();
    memory.regions[0].kind = RegionKind::File;
    assert_eq!(Zend.walk(&memory.moment(), &mut ()), Answer::Absent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_the_bytes_are_a_walk_ends(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..512usize, word()), 1..24),
    ) {
        let mut memory = heap();
        let pages = memory.pages().count();
        for (page, place, word) in changes {
            let page = page.index(pages);
            let (_, bytes) = memory.pages().nth(page).unwrap();
            bytes[place * 8..place * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        let moment = memory.moment();
        let mut blocks = Vec::new();
        Zend.walk(&moment, &mut blocks);
        let all = MAIN..HUGE + CHUNK + PAGE;
        blocks.sort_by_key(|block| block.at);
        prop_assert!(blocks.windows(2).all(|pair| pair[0].at + pair[0].size <= pair[1].at));
        for block in blocks {
            prop_assert!(all.contains(&block.at) && block.at + block.size <= all.end);
        }
        Census::take(&moment, &[&Zend]);
    }
}

/// Words that a walk takes for something, and any.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..600u64,
        (0..5u64).prop_map(|chunk| MAIN + chunk * CHUNK),
        (0..CHUNK / 8).prop_map(|place| MAIN + place * 8),
        (0..BINS.len() as u64).prop_map(|class| class | 1 << 31),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| u64::from(a) | u64::from(b) << 32),
    ]
}
