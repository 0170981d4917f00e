//! Each form beside what is nearly that form.

use std::time::{Duration, Instant};

use heapattach_reach::{Block, Blocks};
use proptest::prelude::*;

use super::{Languages, Shape, search};
use crate::{RegionKind, synthetic::Synthetic};

const HEAP: u64 = 0x80_0000;
const DATA: u64 = 0x40_0000;
/// Constants, then code.
const TABLE: u64 = 0x41_0000;
const CODE: u64 = 0x42_0000;
/// Heads of a text, an array, a list, a tree, a hash map and a trait object.
const HEADS: [u64; 6] = [DATA, DATA + 0x20, DATA + 0x40, DATA + 0x80, DATA + 0xc0, DATA + 0x140];
const BLOCKS: u64 = 10;

fn block(number: u64) -> u64 {
    HEAP + number * 0x100
}

fn memory() -> Synthetic {
    let mut memory = Synthetic::default();
    memory.region(DATA..DATA + 0x1000, RegionKind::File, "/bin/app");
    memory.region(TABLE..TABLE + 0x1000, RegionKind::File, "/bin/app");
    memory.region(CODE..CODE + 0x1000, RegionKind::File, "/bin/app");
    (memory.regions[1].writable, memory.regions[1].file_offset) = (false, 0x1000);
    (memory.regions[2].executable, memory.regions[2].writable) = (true, false);
    memory.regions[2].file_offset = 0x2000;
    memory.map(HEAP..HEAP + 0x1000);
    let [text, array, list, tree, hash, object] = HEADS;
    memory.write_bytes(block(0), &[b'x'; 50]);
    let words = [
        // A text of 50 letters with room for 64; an array of three words with room for nine.
        (text, [block(0), 50, 64].to_vec()),
        (array, [block(1), block(1) + 24, block(1) + 72].to_vec()),
        // Two nodes of a list.
        (list, [block(2), block(3), 2].to_vec()),
        (block(2), [block(3), list, 7].to_vec()),
        (block(3), [list, block(2), 7].to_vec()),
        // A root with one node to its right.
        (tree, [0, block(4), block(4), block(5), 2].to_vec()),
        (block(4), [1, tree, 0, block(5), 7].to_vec()),
        (block(5), [0, block(4), 0, 0, 7].to_vec()),
        // A table of nine slots; two nodes.
        (hash, [block(6), 9, block(7), 2].to_vec()),
        (block(6), [0, hash + 16, block(7), 0].to_vec()),
        (block(7), [block(8), 1].to_vec()),
        (block(8), [0, 2].to_vec()),
        (object, [block(9), TABLE].to_vec()),
        (TABLE, [CODE + 8, 72, 8, CODE + 16].to_vec()),
    ];
    for (at, words) in words {
        (at..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
    }
    memory
}

fn found(memory: &Synthetic) -> Vec<Option<Shape>> {
    let sized = |number| Block { at: block(number), size: 72, stack: 0 };
    let blocks = Blocks::new((0..BLOCKS).map(sized).collect());
    let languages = Languages { cpp: true, libcpp: false, rust: true };
    let end = Instant::now() + Duration::from_secs(60);
    let data = DATA..DATA + 0x1000;
    search(&memory.moment(), &blocks, &[data], &|_| false, languages, false, end).found
}

#[test]
fn each_form_is_told() {
    use Shape::{Array, HashNode, HashTable, ListNode, Text, Trait, TreeNode};
    let expected = [
        Text,
        Array,
        ListNode,
        ListNode,
        TreeNode,
        TreeNode,
        HashTable,
        HashNode,
        HashNode,
        Trait(0),
    ];
    assert_eq!(found(&memory()), expected.map(Some));
}

#[test]
fn what_is_nearly_a_form_is_none() {
    let [text, array, list, tree, hash, object] = HEADS;
    // A word that is changed, and a block that has no form then.
    let wrong = [
        (text + 8, 49, 0),
        (text + 8, 51, 0),
        (text + 16, 72, 0),
        (text + 16, 30, 0),
        (text, block(0) + 8, 0),
        (block(0) + 8, 0, 0),
        (array, block(1) + 8, 1),
        (array + 8, block(1) + 80, 1),
        (array + 8, block(1), 1),
        (array + 16, block(1) + 40, 1),
        (array + 16, block(1) + 80, 1),
        (list + 16, 3, 2),
        (list + 16, 1, 3),
        (list + 8, block(2), 2),
        (block(3) + 8, list, 3),
        (block(3), block(2), 2),
        (tree, 1, 4),
        (tree + 32, 3, 5),
        (tree + 32, 1, 4),
        (tree + 24, block(4), 4),
        (block(4) + 8, block(5), 4),
        (block(5) + 8, tree, 5),
        (block(5), 2, 5),
        (block(5) + 24, block(4), 5),
        (hash + 8, 4, 6),
        (hash + 8, 10, 6),
        (hash + 24, 1, 7),
        (hash + 24, 3, 8),
        (block(6) + 8, 0, 6),
        (block(6) + 16, block(0), 6),
        (block(8), block(7), 8),
        (object + 8, TABLE + 8, 9),
        (TABLE, DATA, 9),
        (TABLE + 8, 80, 9),
        (TABLE + 8, 8, 9),
        (TABLE + 16, 3, 9),
        (TABLE + 24, 0, 9),
    ];
    for (at, word, number) in wrong {
        let mut memory = memory();
        memory.write(at, word);
        assert_eq!(found(&memory)[number], None, "{at:#x} {word:#x}");
    }
}

#[test]
fn a_block_of_two_forms_has_neither() {
    let mut memory = memory();
    // The text is an array, too.
    let other = DATA + 0x200;
    for (at, word) in [(0, block(0)), (8, block(0) + 8), (16, block(0) + 72)] {
        memory.write(other + at, word);
    }
    assert_eq!(found(&memory)[0], None);
}

proptest! {
    #[test]
    fn whatever_the_words_are_there_is_an_end(
        changes in prop::collection::vec((0..0x200u64, 0..4u8, any::<u64>()), 1..40),
    ) {
        let mut memory = memory();
        for (place, kind, word) in changes {
            let word = match kind {
                0 => word,
                1 => DATA + word % 0x400,
                2 => block(word % (BLOCKS + 1)),
                _ => word % 16,
            };
            let at = if place < 0x40 { DATA + place * 8 } else { HEAP + (place - 0x40) * 8 };
            memory.write(at, word);
        }
        found(&memory);
    }
}
