//! A target that writes anything at all into the shared region: reading it never panics, ends, and
//! holds no more than a window.

use std::{fs::File, os::fd::OwnedFd, sync::Arc};

use heapattach_abi::{
    region,
    ring::{self, Kind, RING_HEAD_BYTES, RINGS, SLOT_BYTES},
    row, stacks,
};
use heapattach_injector::{
    counts::Counts,
    event::{StackId, What},
    memory::Memory,
    ring::{Intervals, Reader},
    shared::Shared,
    stacks::Stacks,
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use proptest::prelude::*;

const BITS: u32 = 7;

struct Region {
    shared: Shared,
    memory: Memory,
}

impl Region {
    fn new() -> Self {
        let file: OwnedFd = memfd_create("region", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        let shared = Shared::take(file, region::region_bytes(BITS)).unwrap();
        Self { shared, memory: Memory::of(File::open("/dev/null").unwrap()) }
    }

    fn set(&self, at: usize, word: u64) {
        self.shared.store(&self.memory, at, word).unwrap();
    }

    fn slot(number: usize, position: u64) -> usize {
        let index = usize::try_from(position).unwrap() & ((1 << BITS) - 1);
        region::SLOTS_AT + (number << BITS | index) * SLOT_BYTES
    }

    /// A record as an honest thread writes it.
    fn write(&self, number: usize, position: u64, words: [u64; 3]) {
        let at = Self::slot(number, position);
        for (i, word) in words.into_iter().enumerate() {
            self.set(at + 8 + 8 * i, word);
        }
        self.set(at, ring::seal(position, 1));
        self.set(region::RING_HEADS_AT + number * RING_HEAD_BYTES, position + 1);
    }
}

fn reader() -> Reader {
    Reader::new(BITS, Arc::new(Intervals::new(512)))
}

fn stamps(reader: &mut Reader, region: &Region) -> Vec<u64> {
    let mut stamps = Vec::new();
    reader.drain(&region.shared, &region.memory, |event, _| stamps.push(event.stamp)).unwrap();
    stamps
}

#[test]
fn records_of_several_rings_are_told_by_their_stamps_and_gaps_are_waited_for() {
    let (region, mut reader) = (Region::new(), reader());
    let alloc = ring::pack(0x1000, Kind::Allocated, 3, 0);
    let free = ring::pack(0x1000, Kind::Freed, 4, 0);
    region.write(1, 0, [free, 0, 1]);
    region.write(0, 0, [alloc, 64, 0]);
    region.write(1, 1, [alloc, 32, 3]);
    assert_eq!(stamps(&mut reader, &region), [0, 1], "stamp 2 is missing still");
    region.write(5, 0, [free, 0, 2]);
    let mut told = Vec::new();
    reader.drain(&region.shared, &region.memory, |event, call| told.push((event, call))).unwrap();
    assert_eq!(told.iter().map(|(e, _)| e.stamp).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((told[0].1.hook, told[1].1.hook, told[1].1.stack), (4, 3, StackId(1)));
    let What::Allocated { size, interval, .. } = told[1].0.what else { panic!("{told:?}") };
    assert_eq!((size, interval, reader.torn), (32, 512, 0));
}

#[test]
fn a_record_that_is_never_finished_is_given_up_at_the_end() {
    let (region, mut reader) = (Region::new(), reader());
    let alloc = ring::pack(0x1000, Kind::Allocated, 3, 0);
    // Position 0 was taken with stamp 0, and its thread is gone.
    region.write(2, 1, [alloc, 64, 1]);
    assert!(stamps(&mut reader, &region).is_empty());
    let mut told = Vec::new();
    reader.finish(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    assert_eq!((told, reader.torn), (vec![1], 2));
}

/// A word that is often nearly right.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..300_u64,
        (0..300_u64).prop_map(|n| u64::MAX - n),
        (0..300_u64, 0..3_u32).prop_map(|(position, stack)| ring::seal(position, stack)),
        (any::<u64>(), 0..16_u64, 0..64_u64, 0..64_u64).prop_map(|(a, kind, hook, interval)| {
            a & ring::ADDRESS_MASK | kind << 48 | hook << 52 | interval << 58
        }),
        Just(1 << 63),
    ]
}

/// A place that somebody looks at.
fn place() -> impl Strategy<Value = usize> {
    let words = |start: usize, bytes: usize| (0..bytes / 8).prop_map(move |i| start + 8 * i);
    prop_oneof![
        words(0, 512),
        words(region::ROWS_AT, 4 * row::ROW_BYTES),
        words(region::STACK_INDEX_AT, 8 * stacks::ENTRY_BYTES),
        words(region::RING_HEADS_AT, RINGS * RING_HEAD_BYTES),
        words(region::SLOTS_AT, 3 * (SLOT_BYTES << BITS)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_words_in_the_region_are_read_without_panic_and_within_bounds(
        rounds in proptest::collection::vec(proptest::collection::vec((place(), word()), 0..400), 1..4),
    ) {
        let region = Region::new();
        let (mut reader, mut known) = (reader(), Stacks::default());
        let mut told = 0_usize;
        for words in &rounds {
            for (at, word) in words {
                region.set(*at, *word);
            }
            let read = reader.drain(&region.shared, &region.memory, |event, call| {
                told += 1;
                known.note(&region.shared, &region.memory, call.stack);
                if let What::Allocated { interval, .. } = event.what {
                    assert_eq!(interval, 512);
                }
            });
            prop_assert!(read.is_ok());
            let counts = Counts::read(&region.shared, &region.memory).unwrap();
            prop_assert!(counts.threads < row::ROWS);
            for id in 0..9 {
                known.note(&region.shared, &region.memory, StackId(id));
                let frames = known.get(StackId(id)).map_or(0, |stack| stack.frames.len());
                prop_assert!(frames <= stacks::MAX_FRAMES);
            }
        }
        reader.finish(&region.shared, &region.memory, |_, _| told += 1).unwrap();
        // Each round can show each slot once.
        prop_assert!(told <= (rounds.len() + 1) * (RINGS << BITS));
    }
}
