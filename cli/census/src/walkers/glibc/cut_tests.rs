//! A heap as it is while a thread cuts a free chunk in two: the block and the rest are told, whatever the memory
//! between them has.

use super::{
    HEAD,
    synthetic_tests::{ARENA, BINS, BREAK, BREAK_END, heap, walked},
};
use crate::{State, Walk, synthetic::Synthetic};

/// The free chunk that is cut is the second: it begins here, and has so many bytes.
const VICTIM: u64 = BREAK + 0x30;
const SIZE: u64 = 0x200;
/// The block that is allocated of it.
const BLOCK: u64 = 0x60;
const REST: u64 = VICTIM + BLOCK;
const UNSORTED: u64 = BINS - HEAD;
const SIZES: [i64; 6] = [0x30, -0x200, 0x410, -0x100, 0x20, 0x60];
/// The other free chunk.
const OTHER: u64 = VICTIM + SIZE + 0x410;

/// The rest is listed, and nothing else is done. An arena that is locked is one that a thread changes.
fn listed() -> Synthetic {
    let mut memory = heap(&SIZES);
    memory.write(ARENA, 1);
    memory.write(VICTIM + SIZE, SIZE);
    memory.write(OTHER + 0x100, 0x100);
    memory.write(REST + 16, OTHER);
    memory.write(REST + 24, UNSORTED);
    memory.write(BINS, REST);
    memory.write(OTHER + 24, REST);
    memory
}

/// The block has its size, the rest has this as a head.
fn cut(head: u64) -> Synthetic {
    let mut memory = listed();
    memory.write(VICTIM + 8, BLOCK | 1);
    memory.write(REST + 8, head);
    memory
}

fn assert_told(memory: &Synthetic, what: &str) -> Walk {
    let (walk, blocks) = walked(memory);
    assert!(walk.is_exact(), "{what}: {walk:#?}");
    let told: Vec<_> =
        blocks.iter().map(|b| (b.at - HEAD, b.size + 8, b.state == State::Used)).collect();
    let expected = [
        (BREAK, 0x30, true),
        (VICTIM, BLOCK, true),
        (REST, SIZE - BLOCK, false),
        (VICTIM + SIZE, 0x410, true),
        (OTHER, 0x100, false),
        (OTHER + 0x100, 0x20, true),
        (OTHER + 0x120, 0x60, true),
    ];
    assert_eq!(told, expected, "{what}");
    assert_eq!(walk.bytes().all(), BREAK_END - BREAK, "{what}");
    walk
}

#[test]
fn a_rest_that_is_listed_before_its_chunk_is_cut_is_told() {
    assert_told(&listed(), "the chunk has all of its size still");
}

#[test]
fn a_rest_without_a_head_is_found_by_what_its_end_says() {
    for head in [0, 7, 0x10, 0x31, 0x30, 0x91, SIZE - BLOCK, u64::MAX, 0x4141_4141_4141_4141] {
        assert_told(&cut(head), &format!("head {head:#x}"));
    }
}

#[test]
fn a_rest_with_its_head_is_any_other_chunk() {
    let mut memory = cut((SIZE - BLOCK) | 1);
    assert_told(&memory, "its end says the old size");
    memory.write(VICTIM + SIZE, SIZE - BLOCK);
    assert_told(&memory, "its end says its own");
}

#[test]
fn what_older_chunks_left_in_the_rest_is_not_its_end() {
    let mut memory = cut(0);
    // A chunk that was in use when the one behind it was freed: all three were merged.
    let (inner, last) = (REST + 0x40, REST + 0x90);
    memory.write(inner, inner - VICTIM);
    memory.write(inner + 8, last - inner);
    memory.write(last + 8, (VICTIM + SIZE - last) | 1);
    assert_told(&memory, "an old chunk, and a free one behind it");
    memory.write(inner + 8, VICTIM + SIZE - inner);
    assert_told(&memory, "an old chunk up to the end");
}

#[test]
fn a_broken_chain_is_doubted_where_nobody_changes_it() {
    for memory in [&mut listed(), &mut cut(0), &mut cut(0x31)] {
        memory.write(ARENA, 0);
        let (walk, _) = walked(memory);
        assert!(!walk.is_exact(), "{walk:#?}");
    }
}

#[test]
fn a_doubt_tells_whether_another_look_can_help() {
    // More free chunks that are in no list than one thread can be about to put into one.
    let mut memory = heap(&[0x30, -0x100, 0x30, -0x100, 0x30, -0x100, 0x30]);
    for word in [BINS, BINS + 8] {
        memory.write(word, UNSORTED);
    }
    let told = |memory: &Synthetic| format!("{:?}", walked(memory).0.trust);
    let text = told(&memory);
    assert!(text.contains("not in one list") && !text.contains("look again"), "{text}");
    memory.write(ARENA, 1);
    assert!(told(&memory).contains("look again"), "{}", told(&memory));
}
