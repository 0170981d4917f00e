//! What the reader of the rings and the watcher of a session have in common.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use heapattach_injector::watch::Lost;

use crate::watch::{kernel_list::Recorded, pace::Bell, ring_owners::RingOwners};
use heapattach_ledger::{Ends, Mark, Moment};
use heapattach_profile::{Flow, Sheet};
use heapattach_symbols::Known;

/// What both threads share.
#[derive(Debug, Default)]
pub struct SharedNotes {
    /// The threads that write records.
    pub ring_owners: RingOwners,
    /// How much there is.
    pub pulse: Pulse,
    /// What is recorded as mapped.
    pub recorded: Recorded,
    /// Checks that the program requested in between its allocations.
    pub checks: AtomicU64,
    /// Of these, the ones that it requested of valgrind.
    pub checks_of_valgrind: AtomicU64,
    /// By what the reader wakes the watcher.
    pub bell: Bell,
    notes: Mutex<Vec<Note>>,
}

/// Something to be written down.
#[derive(Debug)]
pub enum Note {
    /// The numbers at a moment.
    Moment(Moment),
    /// How things were at the end; what is known from records comes to it when all are in.
    Last(Moment),
    /// A moment to be kept, and to be found on disk at once.
    Mark(Mark),
    /// How much found no room in rings by now.
    Lost(Lost),
    /// Where modules are now.
    Modules(Vec<Known>),
}

/// How much there is, as of a moment ago.
#[derive(Debug, Default)]
pub struct Pulse {
    live: AtomicU64,
    allocated: AtomicU64,
    blocks: AtomicU64,
    mapped: AtomicU64,
    own_mapped: AtomicU64,
    peak: AtomicU64,
    /// The ends of the intervals of the first three.
    ends: [AtomicU64; 6],
}

impl SharedNotes {
    /// Has something written down.
    pub fn leave(&self, note: Note) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    /// Whether anything is to be written down.
    pub fn has_any(&self) -> bool {
        !self.notes.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// What is to be written down.
    pub fn take(&self) -> Vec<Note> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pulse {
    /// Says how much there is; of pages that the program mapped itself there are `own` bytes, and so many at
    /// most together with blocks.
    pub fn set(&self, sheet: &Sheet, (own, most): (u64, f64)) {
        let live = sheet.heap().measure(Flow::Live).bytes;
        let allocated = sheet.heap().measure(Flow::Allocated);
        let estimates = [live, allocated.bytes, allocated.count];
        let ends = estimates.iter().flat_map(|estimate| [estimate.low, estimate.high]);
        self.ends.iter().zip(ends).for_each(|(word, end)| word.store(end.to_bits(), Relaxed));
        let numbers = [
            (&self.live, live.value),
            (&self.allocated, allocated.bytes.value),
            (&self.blocks, allocated.count.value),
            (&self.peak, sheet.peak_bytes().max(most)),
        ];
        numbers.into_iter().for_each(|(word, number)| word.store(number.to_bits(), Relaxed));
        self.mapped.store(sheet.mapped().live, Relaxed);
        self.own_mapped.store(own, Relaxed);
    }

    /// A moment with the part that is known from records.
    pub fn complete(&self, moment: Moment) -> Moment {
        Moment {
            live: read(&self.live),
            allocated: read(&self.allocated),
            blocks: read(&self.blocks),
            mapped: self.mapped.load(Relaxed),
            own_mapped: Some(self.own_mapped()),
            ends: self.ends(),
            ..moment
        }
    }

    /// Nothing where every block is recorded; a digit behind the point would be noise.
    fn ends(&self) -> Option<Ends> {
        let [a, b, c, d, e, f] = self.ends.each_ref().map(|word| read(word).round());
        let is_estimated = a < b || c < d || e < f;
        is_estimated.then_some(Ends { live: [a, b], allocated: [c, d], blocks: [e, f] })
    }

    /// Bytes of blocks that are in use.
    pub fn live(&self) -> f64 {
        read(&self.live)
    }

    /// Bytes of pages that the program mapped itself, and still.
    pub fn own_mapped(&self) -> u64 {
        self.own_mapped.load(Relaxed)
    }

    /// The most bytes that were in use at once, of blocks, or together with these pages at any look.
    pub fn peak(&self) -> f64 {
        read(&self.peak)
    }
}

fn read(word: &AtomicU64) -> f64 {
    f64::from_bits(word.load(Relaxed))
}
