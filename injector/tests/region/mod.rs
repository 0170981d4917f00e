//! A shared region that no hooks write to, for the tests and the fuzzer of its reader.

use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock},
};

use heapattach_abi::{
    region,
    ring::{self, RING_HEAD_BYTES, RINGS, SLOT_BYTES},
    row, stacks,
};
use heapattach_injector::{
    inside::Stacks,
    watch::{Counts, Intervals, Reader},
};
use heapattach_process::{
    event::{StackId, What},
    memory::Memory,
    memory_file::MemoryFile,
    shared::Shared,
};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Binary logarithm of the slots of its rings.
pub const BITS: u32 = 7;

/// The region.
pub struct Region {
    /// Itself.
    pub shared: Shared,
    /// Binary logarithm of the slots of its rings.
    bits: u32,
    /// Of no process.
    pub memory: Memory,
}

impl Region {
    /// All zero.
    pub fn new() -> Self {
        Self::of_rings(BITS)
    }

    /// The same with rings of `1 << bits` slots.
    pub fn of_rings(bits: u32) -> Self {
        let file: OwnedFd =
            memfd_create("region", MFdFlags::MFD_ALLOW_SEALING).expect("a file in memory");
        let file = MemoryFile::judged(file).expect("a new file in memory");
        let shared = Shared::take(file, region::tables_at(bits)).expect("a mapping");
        Self { shared, bits, memory: Memory::of(File::open("/dev/null").expect("it is there")) }
    }

    /// Writes a word.
    pub fn set(&self, at: usize, word: u64) {
        self.shared.store(&self.memory, at, word).expect("inside");
    }

    /// Writes a record as an honest thread does.
    pub fn write(&self, number: usize, position: u64, words: [u64; 3]) {
        self.fill(number, position, words);
        self.set(region::RING_HEADS_AT + number * RING_HEAD_BYTES, position + 1);
    }

    /// The same at a position that was taken before.
    pub fn fill(&self, number: usize, position: u64, words: [u64; 3]) {
        let index = usize::try_from(position).unwrap_or(0) & ((1 << self.bits) - 1);
        let at = region::SLOTS_AT + (number << self.bits | index) * SLOT_BYTES;
        for (i, word) in words.into_iter().enumerate() {
            self.set(at + 8 + 8 * i, word);
        }
        self.set(at, ring::seal(position, 1));
    }

    /// The `number`-th word of those that a reader looks at, over and over.
    pub fn place(number: usize) -> usize {
        let parts = [
            (0, 512),
            (region::ROWS_AT, 4 * row::ROW_BYTES),
            (region::STACK_INDEX_AT, 8 * stacks::ENTRY_BYTES),
            (region::RING_HEADS_AT, RINGS * RING_HEAD_BYTES),
            (region::SLOTS_AT, 3 * (SLOT_BYTES << BITS)),
        ];
        let mut number = number % parts.iter().map(|(_, bytes)| bytes / 8).sum::<usize>();
        for (start, bytes) in parts {
            if number < bytes / 8 {
                return start + 8 * number;
            }
            number -= bytes / 8;
        }
        0
    }

    /// Reads everything that can be read after each round of words, and checks the bounds.
    pub fn explore(&self, rounds: &[Vec<(u16, u64)>]) {
        let (mut reader, mut known, mut told) = (reader(), Stacks::default(), 0);
        for words in rounds {
            for (number, word) in words {
                self.set(Self::place(usize::from(*number)), *word);
            }
            let read = reader.drain(&self.shared, &self.memory, |event, call| {
                told += 1;
                known.note(&self.shared, &self.memory, &OnceLock::new(), call.stack);
                if let What::Allocated { interval, .. } = event.what {
                    assert_eq!(interval, 512);
                }
            });
            read.expect("the region is there");
            if words.len() % 2 == 0 {
                let settled = reader.settle(&self.shared, &self.memory, |_, _| told += 1);
                settled.expect("the region is there");
                assert!(reader.unfinished() <= (RINGS << BITS) * (rounds.len() + 1));
            }
            let counts = Counts::read(&self.shared, &self.memory).expect("the region is there");
            assert!(counts.threads < row::ROWS);
            for id in (0..9).map(StackId) {
                known.note(&self.shared, &self.memory, &OnceLock::new(), id);
                let frames = known.get(id).map_or(0, |stack| stack.frames.len());
                assert!(frames <= stacks::MAX_FRAMES);
            }
        }
        let finished = reader.finish(&self.shared, &self.memory, |_, _| told += 1);
        finished.expect("the region is there");
        // Each look can show each slot once, there are two at most in a round, and what a moment passed over
        // can be shown besides.
        assert!(told <= (3 * rounds.len() + 1) * (RINGS << BITS));
    }
}

/// A reader of it.
pub fn reader() -> Reader {
    Reader::new(BITS, Arc::new(Intervals::new(512)))
}
