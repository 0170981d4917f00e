//! Pages of memory that may not be mapped, copied by the kernel, several with one call, and kept while a look lasts: what
//! an interpreter knows of its functions lies close together. Two looks often need the same pages: those of the last one
//! are copied, anew, with the first that the next one needs. A page that was not there is not put among others again:
//! the kernel ends at it.
//!
//! What is counted here is in the buffer: constants side by side would take vector registers.

use core::sync::atomic::Ordering::Relaxed;

use heapattach_abi::{
    copies::{BATCH, DATA, KNOWN, NEEDED, PAGES, TAGS, TAKEN, VECTORS, WAITING},
    region,
};

use crate::{arch, proven_pages::ProvenPages, shared_word::Place};

const PAGE: u64 = 4096;
/// What needs more calls of the kernel than this is none of ours.
const LOOKS: u32 = 96;
/// All of them in one call of the program's, however often a walk begins again: nothing may keep a thread here.
const ALL_LOOKS: u32 = 1 << 14;
/// In the address of a page: it is not there.
const ABSENT: u64 = 1;

/// A buffer with such pages, and how often the kernel may still be called.
pub(crate) struct KeptPages {
    copy: Place,
    process: u64,
    looks: u32,
    all_looks: u32,
    proven: ProvenPages,
    calls: Place,
}

impl KeptPages {
    /// None yet, of a process; those that are proven to be there need not be copied.
    #[inline(always)]
    pub(crate) fn none(copy: Place, process: u64, proven: ProvenPages, region: Place) -> Self {
        copy.at(KNOWN).set(0);
        let calls = region.at(region::COPYING_CALLS);
        Self { copy, process, looks: LOOKS, all_looks: ALL_LOOKS, proven, calls }
    }

    /// Those that are read directly.
    #[inline(always)]
    pub(crate) fn proven(&mut self) -> &mut ProvenPages {
        &mut self.proven
    }

    /// Copies so many bytes, or as many as there are to the end of the page; answers how many.
    #[inline(never)]
    pub(crate) fn copy(&mut self, to: Place, at: u64, length: u64) -> u64 {
        let whole = self.copy_all(to, at, length);
        if whole != 0 { whole } else { self.copy_all(to, at, length.min(PAGE - at % PAGE)) }
    }

    #[inline(never)]
    fn copy_all(&mut self, to: Place, at: u64, length: u64) -> u64 {
        self.vector(0, to.address(), length);
        self.vector(BATCH, at, length);
        if self.copied(0, 1) == Some(length) { length } else { 0 }
    }

    /// Copies words of so many places, which lie as the kernel takes them, and which may lead anywhere: these are not read
    /// directly. Answers how many are there before one that is not.
    pub(crate) fn copy_words(&mut self, to: Place, places: Place, count: usize) -> usize {
        self.vector(0, to.address(), 8 * count as u64);
        let Some(left) = self.looks.checked_sub(1) else { return 0 };
        self.looks = left;
        let vectors = self.copy.at(VECTORS).address();
        let copied = self.call((vectors, 1), (places.address(), count as u64));
        (copied as usize / 8).min(count)
    }

    /// A call of the kernel; answers how many bytes it copied.
    #[inline(never)]
    fn call(&self, vectors: (u64, u64), sources: (u64, u64)) -> u64 {
        self.calls.word().fetch_add(1, Relaxed);
        arch::copy_memory(self.process, vectors, sources).max(0) as u64
    }

    /// Whether it is known of a place that nothing is there.
    pub(crate) fn lacks(&self, at: u64) -> bool {
        self.proven.lacks(at)
    }

    /// Nothing is there.
    pub(crate) fn note_absent(&self, at: u64) {
        self.proven.note(at, false);
    }

    /// As many looks as at first.
    pub(crate) fn begin_again(&mut self) {
        self.looks = LOOKS;
    }

    /// An aligned word, if its page is kept.
    #[inline(never)]
    pub(crate) fn kept(&mut self, at: u64) -> Option<u64> {
        if self.proven.is_direct() {
            return self.proven.load(at);
        }
        let number = self.place_with(page_of(at)).filter(|_| at & 7 == 0)?;
        self.mark(NEEDED, number);
        Some(self.copy.at(DATA + number * PAGE as usize + (at % PAGE) as usize).get())
    }

    /// Begins with no page that is to be copied.
    pub(crate) fn begin(&self) {
        self.copy.at(TAKEN).set(0);
        self.copy.at(WAITING).set(0);
    }

    /// Begins with the page of a place, which is not kept; answers false if it is not there.
    #[inline(never)]
    pub(crate) fn begin_with(&self, at: u64) -> bool {
        self.begin();
        let is_absent = self.place_with(page_of(at) | ABSENT).is_some() || self.proven.lacks(at);
        if !is_absent {
            self.take(page_of(at));
        }
        !is_absent
    }

    /// Adds the page of a place to those that are to be copied, unless it is kept, would take the place of another, or
    /// was not there.
    #[inline(never)]
    pub(crate) fn add(&self, at: u64) {
        let page = page_of(at);
        if self.proven.holds(page) || self.proven.lacks(page) {
            return;
        }
        let (first, second) = places_of(page);
        if let Some(number) = self.place_with(page) {
            return self.mark(TAKEN, number);
        }
        let was_absent = |number| self.tag(number).get() == page | ABSENT;
        if !was_absent(first) && !was_absent(second) && !self.is_waiting(page) {
            self.take(page);
        }
    }

    /// Whether a page is among those that are to be copied.
    fn is_waiting(&self, page: u64) -> bool {
        // The program may have written there: this must end, and within the buffer.
        let mut next = (self.copy.at(WAITING).get() as usize).min(BATCH);
        while next > 0 {
            next -= 1;
            if self.source(next).get() == page {
                return true;
            }
        }
        false
    }

    /// Whether any is to be copied.
    pub(crate) fn has_work(&self) -> bool {
        self.copy.at(WAITING).get() != 0
    }

    #[inline(never)]
    fn take(&self, page: u64) {
        let next = self.copy.at(WAITING).get() as usize;
        let Some(number) = self.room(page).filter(|_| next < BATCH) else { return };
        self.copy.at(WAITING).set(next as u64 + 1);
        self.mark(TAKEN, number);
        let known = self.copy.at(KNOWN);
        known.set(known.get() & !(1 << number));
        let length = self.length();
        self.vector(next, self.copy.at(DATA + number * PAGE as usize).address(), length);
        self.vector(BATCH + next, page, length);
    }

    /// Where a page can be copied to: where there is nothing, if there is such a place.
    fn room(&self, page: u64) -> Option<usize> {
        let (first, second) = places_of(page);
        let is_free = |number: usize| !self.has(TAKEN, number);
        if is_free(first) && !self.has(KNOWN, first) {
            return Some(first);
        }
        if is_free(second) && (!self.has(KNOWN, second) || !is_free(first)) {
            return Some(second);
        }
        is_free(first).then_some(first)
    }

    /// Copies pages, as far as they are there.
    #[inline(never)]
    pub(crate) fn fetch(&mut self) {
        self.add_last();
        let count = (self.copy.at(WAITING).get() as usize).min(BATCH);
        let mut next = 0;
        while next < count {
            let Some(copied) = self.copied(next, count - next) else { return };
            let end = (next + (copied / self.length()) as usize).min(count);
            while next < end {
                self.found(next, 0);
                next += 1;
            }
            // The kernel ends at the first one that is not there.
            if next < count {
                self.found(next, ABSENT);
                next += 1;
            }
        }
    }

    /// Adds those that the last look needed which copied any, once.
    fn add_last(&self) {
        if self.all_looks != ALL_LOOKS {
            return;
        }
        let mut last = self.copy.at(NEEDED).get();
        self.copy.at(NEEDED).set(0);
        let mut number = 0;
        while last != 0 {
            if last & 1 != 0 {
                self.add(self.tag(number).get() & !ABSENT);
            }
            last >>= 1;
            number += 1;
        }
    }

    fn found(&self, next: usize, absent: u64) {
        let to = self.copy.at(VECTORS + next * 16).get();
        let number = (to.wrapping_sub(self.copy.at(DATA).address()) / PAGE) as usize & (PAGES - 1);
        self.tag(number).set(self.source(next).get() | absent);
        self.proven.note(self.source(next).get(), absent == 0);
        // What is read directly is not here.
        let is_direct = absent == 0 && self.proven.is_direct();
        self.mark(if is_direct { NEEDED } else { KNOWN }, number);
    }

    /// How much of a page is copied: of what is then read directly, one word.
    fn length(&self) -> u64 {
        if self.proven.is_direct() { 8 } else { PAGE }
    }

    /// Where what is known in this look of a page is, by its tag.
    fn place_with(&self, tag: u64) -> Option<usize> {
        let (first, second) = places_of(tag);
        let is_it = |number: usize| self.tag(number).get() == tag && self.has(KNOWN, number);
        if is_it(first) { Some(first) } else { Some(second).filter(|&second| is_it(second)) }
    }

    /// The address of a page that is kept, or was by the last look.
    fn tag(&self, number: usize) -> Place {
        self.copy.at(TAGS + number * 8)
    }

    /// The address of a page that is to be copied.
    fn source(&self, next: usize) -> Place {
        self.copy.at(VECTORS + (BATCH + next) * 16)
    }

    fn has(&self, marks: usize, number: usize) -> bool {
        self.copy.at(marks).get() >> number & 1 != 0
    }

    fn mark(&self, marks: usize, number: usize) {
        let marks = self.copy.at(marks);
        marks.set(marks.get() | 1 << number);
    }

    fn vector(&self, number: usize, at: u64, length: u64) {
        let vector = self.copy.at(VECTORS + number * 16);
        vector.set(at);
        vector.at(8).set(length);
    }

    /// Has so many vectors filled from those that say where from; answers how many bytes that are.
    #[inline(never)]
    fn copied(&mut self, first: usize, count: usize) -> Option<u64> {
        self.looks = self.looks.checked_sub(1)?;
        self.all_looks = self.all_looks.checked_sub(1)?;
        let vectors = self.copy.at(VECTORS + first * 16).address();
        let sources = self.copy.at(VECTORS + (BATCH + first) * 16).address();
        let count = count as u64;
        Some(self.call((vectors, count), (sources, count)))
    }
}

/// The two places where the page of an address may be kept: engines begin much at the same distance from round addresses.
fn places_of(at: u64) -> (usize, usize) {
    const BITS: u32 = (PAGES as u64).trailing_zeros();
    let first = ((at / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize;
    (first, first ^ 1)
}

/// The page of an address.
pub(crate) fn page_of(at: u64) -> u64 {
    at & !(PAGE - 1)
}
