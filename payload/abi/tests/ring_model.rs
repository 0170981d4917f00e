//! The ring's protocol under a model checker: every interleaving, and every order that the memory
//! model allows.

use heapattach_abi::{
    protocol::{self, Words},
    ring::{HEAD, RING_HEAD_BYTES, SLOT_BYTES},
};
use loom::{
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    thread,
};

/// Slots of the ring: fewer than records, so that it goes round.
const CAPACITY: u32 = 2;

struct Ring(Vec<AtomicU64>);

impl Ring {
    fn new() -> Self {
        let bytes = RING_HEAD_BYTES + usize::try_from(CAPACITY).unwrap() * SLOT_BYTES;
        Self((0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
    }

    fn slot(position: u64) -> usize {
        RING_HEAD_BYTES + usize::try_from(position % u64::from(CAPACITY)).unwrap() * SLOT_BYTES
    }

    /// Writes a record if there is room.
    fn write(&self, value: u64) -> bool {
        let Ok(position) = protocol::reserve(self, 0, CAPACITY.into(), true) else { return false };
        protocol::fill(self, Self::slot(position), position, 7, [value, value + 1, value + 2]);
        true
    }

    /// Reads what is sealed, and gives its slots back.
    fn drain(&self, tail: &mut u64, read: &mut Vec<u64>) {
        let head = self.acquire(HEAD);
        while *tail != head {
            let Some(slot) = protocol::read(self, Self::slot(*tail), *tail) else { break };
            let [seal, value, next, last] = slot;
            assert_eq!((seal >> 32, next, last), (7, value + 1, value + 2), "torn: {slot:?}");
            read.push(value);
            *tail += 1;
        }
        protocol::advance(self, 0, *tail);
    }
}

impl Words for Ring {
    fn get(&self, at: usize) -> u64 {
        self.0[at / 8].load(Relaxed)
    }

    fn set(&self, at: usize, value: u64) {
        self.0[at / 8].store(value, Relaxed);
    }

    fn acquire(&self, at: usize) -> u64 {
        self.0[at / 8].load(Acquire)
    }

    fn release(&self, at: usize, value: u64) {
        self.0[at / 8].store(value, Release);
    }

    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.0[at / 8].compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }
}

/// Lets writers and the reader run, and checks that each record written is read whole, once.
fn check(writers: &'static [&'static [u64]]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let ring = Arc::new(Ring::new());
        let writing: Vec<_> = writers
            .iter()
            .map(|values| {
                let ring = ring.clone();
                let write = move || values.iter().filter(|v| ring.write(**v)).copied().collect();
                thread::spawn(write)
            })
            .collect();
        let (mut tail, mut read) = (0, Vec::new());
        ring.drain(&mut tail, &mut read);
        let written: Vec<Vec<u64>> = writing.into_iter().map(|w| w.join().unwrap()).collect();
        ring.drain(&mut tail, &mut read);
        let mut written = written.concat();
        let mut sorted = read.clone();
        written.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(written, sorted);
    });
}

#[test]
fn one_writer_that_laps_the_ring_is_read_whole_and_once() {
    check(&[&[10, 20, 30]]);
}

#[test]
fn two_writers_of_one_ring_never_share_a_slot() {
    check(&[&[10, 20], &[30]]);
}
