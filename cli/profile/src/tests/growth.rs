//! How the reader's work grows with what a program does: its instructions at a number and at four times that, so
//! that a busy machine changes nothing.

use std::sync::Arc;

use heapattach_injector::watch::{Intervals, Reader};
use heapattach_instruction_count::count;
use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
};

use super::instructions::{BITS, Record, region};
use crate::{Limits, Profile, Tick};

/// What a program does.
#[derive(Clone, Copy, Debug)]
struct Program {
    /// Half of them allocate, half of them free.
    records: u64,
    threads: u64,
    /// Blocks that it has all the time.
    live: u64,
    stacks: u64,
}

const USUAL: Program = Program { records: 100, threads: 4, live: 200, stacks: 10 };
/// The first of the blocks that were there before, and of those that come.
const BEFORE: u64 = 0x4000_0000;
const NEW: u64 = 0x6000_0000;
/// Instructions a record may take more with four times as much, in percent: a table that is larger is searched
/// a step longer here and there.
const STEADY: u64 = 15;

impl Program {
    fn stack(self, number: u64) -> u32 {
        u32::try_from(1 + number % self.stacks).unwrap()
    }

    fn records(self) -> Vec<Record> {
        let record = |stamp: u64| {
            let turn = stamp / 2;
            // Each of a ring's own threads, the first of which is 1.
            let ring = usize::try_from(1 + turn % self.threads).unwrap();
            if stamp.is_multiple_of(2) {
                Record::allocated(ring, NEW + turn * 64, 64, stamp, self.stack(turn))
            } else {
                Record::freed(ring, BEFORE + turn * 7919 % self.live * 64, stamp)
            }
        };
        (0..self.records).map(record).collect()
    }

    /// The blocks that are there before.
    fn held(self) -> Vec<Event> {
        let event = |number: u64| Event {
            stamp: 1_000_000 + number,
            origin: Origin::default(),
            what: What::Allocated {
                at: RemoteAddr::new(BEFORE + number * 64),
                size: 64,
                stack: StackId(self.stack(number)),
                interval: 1,
            },
        };
        (0..self.live).map(event).collect()
    }

    /// Instructions for each record: to read it, and to sum it up.
    fn cost(self) -> [u64; 2] {
        let (shared, memory) = region(self.records().into_iter());
        let mut reader = Reader::new(BITS, Arc::new(Intervals::new(1)));
        let mut events: Vec<Event> = Vec::with_capacity(4096);
        let read = count(|| reader.drain(&shared, &memory, |event, _| events.push(event)).unwrap());
        assert_eq!(events.len() as u64, self.records);
        let mut profile = Profile::new(Limits::default(), 80);
        profile.apply(&self.held(), Tick(0), &mut ());
        let summed = count(|| profile.apply(&events, Tick(1), &mut ()));
        assert_eq!(
            (profile.live_records() as u64, profile.oddities()),
            (self.live, Default::default())
        );
        [read, summed].map(|instructions| instructions / self.records)
    }
}

#[test]
fn a_record_takes_as_many_instructions_with_four_times_as_much_of_all_there_is() {
    let few = USUAL.cost();
    let more = [
        ("records", Program { records: 4 * USUAL.records, live: 4 * USUAL.live, ..USUAL }),
        ("threads", Program { threads: 4 * USUAL.threads, ..USUAL }),
        ("live blocks", Program { live: 4 * USUAL.live, ..USUAL }),
        ("stacks", Program { stacks: 4 * USUAL.stacks, ..USUAL }),
    ];
    for (what, program) in more {
        for (way, few, many) in
            [("read", few[0], program.cost()[0]), ("summed up", few[1], program.cost()[1])]
        {
            println!("a record {way}: {few} instructions, {many} with four times the {what}");
            assert!(many * 100 <= few * (100 + STEADY), "{way}, {what}: {many} instead of {few}");
        }
    }
}
