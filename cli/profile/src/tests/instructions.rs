//! The instructions between a record in a ring and the sums.

use std::{fs::File, os::fd::OwnedFd, sync::Arc};

use heapattach_abi::{
    region,
    ring::{self, Kind, RING_HEAD_BYTES, RINGS, SLOT_BYTES},
};
use heapattach_injector::watch::{Intervals, Reader};
use heapattach_process::{event::Event, memory::Memory, memory_file::MemoryFile, shared::Shared};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::{Limits, Profile, Tick};
use heapattach_instruction_count::assert_few;

pub const BITS: u32 = 11;
const RECORDS: u64 = 800;

/// A record, as it is in a ring.
pub struct Record {
    ring: usize,
    words: [u64; 3],
    stack: u32,
}

impl Record {
    /// Of a block.
    pub fn allocated(ring: usize, address: u64, size: u64, stamp: u64, stack: u32) -> Self {
        Self { ring, words: [ring::pack(address, Kind::Allocated, 0, 0), size, stamp], stack }
    }

    /// Of one that goes.
    pub fn freed(ring: usize, address: u64, stamp: u64) -> Self {
        Self { ring, words: [ring::pack(address, Kind::Freed, 4, 0), 0, stamp], stack: 1 }
    }
}

/// Two threads that allocate blocks, of twenty sizes and stacks, and free them soon after.
fn records() -> impl Iterator<Item = Record> {
    (0..RECORDS).map(|stamp| {
        let (turn, ring) = (stamp / 8, 1 + usize::from(stamp % 3 == 0));
        let address = 0x5000_0000 + (turn % 100 * 4 + stamp % 4) * 64;
        let stack = u32::try_from(1 + turn % 20).unwrap();
        match stamp % 8 < 4 {
            true => Record::allocated(ring, address, 16 + turn % 20 * 8, stamp, stack),
            false => Record { stack, ..Record::freed(ring, address, stamp) },
        }
    })
}

/// Rings with these records.
pub fn region(records: impl Iterator<Item = Record>) -> (Shared, Memory) {
    let file: OwnedFd = memfd_create("region", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let file = MemoryFile::judged(file).unwrap();
    let shared = Shared::take(file, region::tables_at(BITS)).unwrap();
    let memory = Memory::of(File::open("/dev/null").unwrap());
    let mut heads = [0; RINGS];
    for Record { ring, words, stack } in records {
        let position = &mut heads[ring];
        let index = usize::try_from(*position).unwrap();
        let at = region::SLOTS_AT + (ring << BITS | index) * SLOT_BYTES;
        shared.fill(&memory, at + 8, &words).unwrap();
        shared.store(&memory, at, ring::seal(*position, stack)).unwrap();
        *position += 1;
        let head = region::RING_HEADS_AT + ring * RING_HEAD_BYTES + ring::HEAD;
        shared.store(&memory, head, *position).unwrap();
    }
    (shared, memory)
}

#[test]
fn a_record_takes_few_instructions_until_it_is_summed_up() {
    let (shared, memory) = region(records());
    let mut reader = Reader::new(BITS, Arc::new(Intervals::new(1)));
    let mut events: Vec<Event> = Vec::with_capacity(4096);
    assert_few("a record read", 400, || {
        reader.drain(&shared, &memory, |event, _| events.push(event)).unwrap();
        RECORDS
    });
    assert_eq!((events.len() as u64, reader.torn), (RECORDS, 0));
    let mut profile = Profile::new(Limits::default(), 80);
    assert_few("a record summed up", 850, || {
        profile.apply(&events, Tick(0), &mut ());
        RECORDS
    });
    assert_eq!((profile.live_records(), profile.oddities()), (0, Default::default()));
}
