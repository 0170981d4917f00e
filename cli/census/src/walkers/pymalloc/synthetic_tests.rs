//! A small heap made word by word: what is right is told, what was corrupted is named, and whatever the
//! bytes are, a walk ends.

use proptest::prelude::*;

use super::{HEAD, Pymalloc};
use crate::{
    Answer, Block, RegionKind, State, Trust, Walk, Walker, census::Census, synthetic::Synthetic,
};

const DATA: u64 = 0x7000_0000_0000;
const LISTS: u64 = DATA + 0x400;
const TABLE: u64 = 0x5555_0000_0040;
const ARENA: u64 = 0x7100_0004_0000;
const POOL: u64 = 0x1000;
const NUMBER: u64 = 3;

fn half(memory: &mut Synthetic, at: u64, number: u64) {
    memory.write_bytes(at, &u32::try_from(number).unwrap().to_le_bytes());
}

fn pool(memory: &mut Synthetic, at: u64, class: u64, count: u64, cut: u64) {
    let size = (class + 1) * 16;
    let last = POOL - size;
    let numbers = [NUMBER, class, HEAD + cut * size, last];
    (0..).zip(numbers).for_each(|(place, number)| half(memory, at + 32 + place * 4, number));
    memory.write(at, count);
}

/// A pool of 48 bytes a block with 5 of 7 in use, a full one, a free one, 61 that were never cut.
fn heap() -> Synthetic {
    let mut memory = Synthetic::default();
    memory.region(DATA..DATA + 0x1000, RegionKind::File, "/bin/python3");
    memory.map(TABLE - 0x40..TABLE + 0x10000);
    memory.map(ARENA..ARENA + 64 * POOL);
    for class in 0..32 {
        let at = LISTS + class * 16;
        memory.write(at, at - 16);
        memory.write(at + 8, at - 16);
    }
    memory.write(DATA + 0x900, TABLE);
    let entry = TABLE + NUMBER * 48;
    memory.write(entry, ARENA);
    memory.write(entry + 8, ARENA + 3 * POOL);
    memory.write(entry + 16, 62 | 64 << 32);
    memory.write(entry + 24, ARENA + 2 * POOL);
    pool(&mut memory, ARENA, 2, 5, 7);
    let list = LISTS + 2 * 16;
    [list, list + 8].into_iter().for_each(|at| memory.write(at, ARENA));
    [16, 24].into_iter().for_each(|link| memory.write(ARENA + link, list - 16));
    memory.write(ARENA + 8, ARENA + HEAD + 48);
    memory.write(ARENA + HEAD + 48, ARENA + HEAD + 4 * 48);
    pool(&mut memory, ARENA + POOL, 31, 7, 7);
    half(&mut memory, ARENA + POOL + 44, POOL - 512);
    half(&mut memory, ARENA + POOL + 40, HEAD + 7 * 512);
    pool(&mut memory, ARENA + 2 * POOL, 1, 0, 9);
    memory
}

fn walked(memory: &Synthetic) -> (Walk, Vec<Block>) {
    let mut blocks = Vec::new();
    match Pymalloc.walk(&memory.moment(), &mut blocks) {
        Answer::Walked(walk) => (walk, blocks),
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_in_use_and_free_ones_are_told() {
    let (walk, blocks) = walked(&heap());
    assert_eq!(walk.trust, Trust::Exact, "{walk:?}");
    let of = |state| blocks.iter().filter(|block| block.state == state).count();
    assert_eq!((of(State::Used), of(State::Free)), (12, 2));
    let free: Vec<u64> =
        blocks.iter().filter(|one| one.state == State::Free).map(|one| one.at).collect();
    assert_eq!(free, [ARENA + HEAD + 48, ARENA + HEAD + 4 * 48]);
    let bytes = walk.bytes();
    assert_eq!(bytes.all(), 64 * POOL);
    assert_eq!((bytes.used, bytes.free), (5 * 48 + 7 * 512, 2 * 48));
}

#[test]
fn what_was_overwritten_is_named_and_its_blocks_are_not_told() {
    let wrong: [(u64, u64); 5] = [
        // A count, a free list in a circle, one that leads elsewhere, a list of pools, free pools.
        (ARENA, 3),
        (ARENA + HEAD + 48, ARENA + HEAD + 48),
        (ARENA + 8, ARENA + HEAD + 8),
        (LISTS + 32, LISTS + 16),
        (TABLE + NUMBER * 48 + 16, 60 | 64 << 32),
    ];
    for (at, word) in wrong {
        let mut memory = heap();
        memory.write(at, word);
        // Another list must still tell the table.
        pool(&mut memory, ARENA + 3 * POOL, 9, 1, 1);
        let entry = TABLE + NUMBER * 48;
        memory.write(entry + 8, ARENA + 4 * POOL);
        if at != entry + 16 {
            memory.write(entry + 16, 61 | 64 << 32);
        }
        let list = LISTS + 9 * 16;
        [list, list + 8].into_iter().for_each(|at| memory.write(at, ARENA + 3 * POOL));
        [16, 24].into_iter().for_each(|link| memory.write(ARENA + 3 * POOL + link, list - 16));
        let (walk, _) = walked(&memory);
        assert!(!walk.is_exact(), "{at:#x}: {walk:?}");
    }
}

#[test]
fn lists_without_a_table_are_refused_and_nothing_is_absent() {
    let mut memory = heap();
    memory.write(DATA + 0x900, 0);
    assert!(matches!(Pymalloc.walk(&memory.moment(), &mut ()), Answer::Refused(_)));
    memory.write(LISTS + 8, 0);
    memory.write(LISTS + 16, 0);
    assert_eq!(Pymalloc.walk(&memory.moment(), &mut ()), Answer::Absent);
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
        Pymalloc.walk(&moment, &mut blocks);
        let arena = ARENA..ARENA + 64 * POOL;
        for block in blocks {
            prop_assert!(arena.contains(&block.at) && block.at + block.size <= arena.end);
        }
        Census::take(&moment, &[&Pymalloc]);
    }
}

/// Words that a walk takes for something, and any.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..600u64,
        (0..64 * POOL / 16).prop_map(|place| ARENA + place * 16),
        (0..0x1000u64 / 16).prop_map(|place| DATA + place * 16),
        (0..64u64).prop_map(|place| TABLE + place * 8),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| u64::from(a) | u64::from(b) << 32),
    ]
}
