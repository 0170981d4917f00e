//! Synthetic images of the allocator, as several releases have it.

use std::collections::HashMap;

use super::*;

/// Memory word by word.
#[derive(Default)]
struct Image(HashMap<u64, u64>);

/// Where the module's variables begin, and its bins.
const MODULE: u64 = 0x7000;
const BINS_AT: u64 = MODULE + 200 * 8;

impl Image {
    fn write(&mut self, at: u64, word: u64) {
        self.0.insert(at, word);
    }

    /// The main arena: all bins empty, but `taken` ones, which have a chunk each.
    fn main(before: u64, taken: usize) -> Self {
        let mut image = Self::default();
        for bin in 0..BINS as u64 {
            let (at, chunk) = (BINS_AT + bin * 16, 0x50_0000 + bin * 0x1000);
            let own = at - HEAD;
            let is_taken = bin < taken as u64;
            let link = if is_taken { chunk } else { own };
            image.write(at, link);
            image.write(at + 8, link);
            if is_taken {
                image.write(chunk + NEXT, own);
                image.write(chunk + PREVIOUS, own);
            }
        }
        image.write(BINS_AT + NEXT_ARENA, BINS_AT - before);
        image
    }

    /// Has the ring go through another arena.
    fn ring(&mut self, before: u64, other: u64) {
        let back = BINS_AT - before;
        self.write(BINS_AT + NEXT_ARENA, other);
        self.write(other + before + NEXT_ARENA, back);
    }

    fn read(&self) -> impl FnMut(u64) -> Option<u64> + '_ {
        |at| Some(self.0.get(&at).copied().unwrap_or(0))
    }

    fn bytes(&self) -> Vec<u8> {
        let words = (0..600).map(|index| self.0.get(&(MODULE + index * 8)).copied().unwrap_or(7));
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn find(&self) -> Option<Arena> {
        Arena::find(MODULE, &self.bytes(), &mut self.read())
    }
}

#[test]
fn an_arena_is_known_by_its_bins_however_few_of_them_are_empty() {
    for before in BEFORE {
        for taken in [0, 100, 106, BINS - 1] {
            let arena = Image::main(before, taken).find();
            let books = arena.map(|arena| arena.books());
            let expected = BINS_AT - before..BINS_AT + END;
            assert_eq!(books, Some(expected), "{before:#x}, {taken} taken");
        }
    }
}

#[test]
fn a_thread_in_the_middle_of_a_change_hides_no_arena_and_what_leads_nowhere_is_none() {
    let mut image = Image::main(0x70, BINS - 1);
    for bin in 0..6 {
        image.write(0x50_0000 + bin * 0x1000 + NEXT, 1);
    }
    assert!(image.find().is_some());
    image.write(0x50_0000 + 6 * 0x1000 + NEXT, 1);
    assert_eq!(image.find(), None);
    let elsewhere = Image::main(0x70, 0).bytes();
    assert_eq!(Arena::find(MODULE + 64, &elsewhere, &mut |_| None), None);
}

#[test]
fn where_an_arena_begins_is_told_by_the_ring_that_closes() {
    for before in BEFORE {
        let mut image = Image::main(before, 3);
        let other = 0x7f00_0000_0030;
        image.ring(before, other);
        let arena = image.find().unwrap();
        assert_eq!(arena.start(), BINS_AT - before);
        assert_eq!(arena.others(&mut image.read()), Some(vec![other]));
        assert_eq!(arena.books_of(other), other..other + before + END);
    }
    // A ring that never closes.
    let mut image = Image::main(0x70, 3);
    image.ring(0x70, 0x9000);
    image.write(0x9000 + 0x70 + NEXT_ARENA, 0x9000);
    assert_eq!(image.find().unwrap().others(&mut image.read()), None);
}

#[test]
fn heaps_are_followed_from_the_top_to_the_first_whatever_they_are_multiples_of() {
    for step in [64 << 20, 8 << 20] {
        let mut image = Image::main(0x70, 3);
        let (first, second) = (0x7f00_0000_0000, 0x7f00_0000_0000 + 3 * step);
        let other = first + 0x30;
        image.ring(0x70, other);
        image.write(other + 0x70 - TOP, second + 0x5_0000);
        for (heap, before, usable) in [(first, 0, step), (second, first, 0x20_0000)] {
            image.write(heap, other);
            image.write(heap + 8, before);
            image.write(heap + 16, usable);
            image.write(heap + 24, usable);
        }
        let arena = image.find().unwrap();
        let expected = [second..second + 0x20_0000, first..first + step];
        assert_eq!(arena.heaps(other, &mut image.read()), expected, "{step:#x}");
    }
}

#[test]
fn a_heap_outside_the_break_is_believed_if_its_chunks_lead_to_its_top() {
    let mut image = Image::main(0x70, 0);
    let start = 0x7f00_0000_0000;
    image.write(BINS_AT - TOP, start + 0x1000);
    image.write(BINS_AT + SYSTEM, 0x20_0000);
    for (at, size) in [(0, 0x400), (0x400, 0xc00), (0x1000, 0x1f_f000)] {
        image.write(start + at + 8, size | 1);
    }
    let arena = image.find().unwrap();
    assert_eq!(arena.main_heap(&mut image.read()), Some(start..start + 0x20_0000));
    image.write(start + 0x408, 0xc11);
    assert_eq!(arena.main_heap(&mut image.read()), None);
}

#[test]
fn a_heap_is_known_by_its_first_words() {
    let at = 7 * HEAP_STEP;
    let words = [at + 0x30, 0, 0x2_1000, 0x2_1000];
    assert_eq!(heap_at(at, words, at + 0x2_1000), Some(at..at + 0x2_1000));
    assert_eq!(heap_at(at, words, at + 0x2_0000), None);
    let another = [at + 0x30, at, 0x1000, 0x1000];
    assert_eq!(heap_at(2 * at, another, u64::MAX), Some(2 * at..2 * at + 0x1000));
    assert_eq!(heap_at(at, [0; 4], u64::MAX), None);
    assert_eq!(heap_at(2 * at, words, u64::MAX), None);
}

#[test]
fn nothing_that_looks_like_bins_is_read_without_end() {
    // Every pair leads to a chunk, and every other one is empty.
    let words: Vec<u64> = (0..40_000_u64)
        .map(|index| if index % 4 < 2 { MODULE + index / 2 * 16 - HEAD } else { 0x50_0000 })
        .collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut reads = 0_usize;
    let _ = Arena::find(MODULE, &bytes, &mut |_| {
        reads += 1;
        Some(1)
    });
    assert!(reads <= MOST_READ + 3, "{reads}");
}
