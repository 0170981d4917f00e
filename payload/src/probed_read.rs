//! Memory of the target's own that may not be mapped: read through the kernel, which says so
//! instead of faulting. A page at a time, and never many of them.

use core::sync::atomic::Ordering::Release;

use heapattach_abi::{
    copies::{ASIDE, BUSY, DATA, FROM, GATHERED, LENGTH, VECTORS, WORDS},
    python::{ORDERS_AT, Order},
};

use crate::{arch, bounds, cells::Cells, readable::Span, row::Row, shared_word::Place};

const PAGE: u64 = 4096;
/// Vectors of single looks come before those of places that are noted while such looks are made.
const WANTED: usize = 5;
/// What needs more looks than this is none of ours.
const LOOKS: u32 = 96;
/// All looks of one call of the program's, however often a walk begins again: nothing may keep a thread here.
const ALL_LOOKS: u32 = 1 << 14;

/// A reader of far memory. The stack that the thread stands on is read directly.
pub(crate) struct Far {
    copy: Place,
    span: Span,
    process: u64,
    looks: u32,
    all_looks: u32,
}

impl Far {
    /// With a buffer that it gives back.
    #[inline(always)]
    pub(crate) fn new(copy: Place, cells: &Cells, row: &Row, pointer: u64) -> Self {
        let (ceiling, _) = bounds::end_of_stack(cells.region(), row, pointer);
        let process = cells.control().at(ORDERS_AT + Order::Process as usize).get();
        Self {
            copy,
            span: Span::new(pointer, ceiling),
            process,
            looks: LOOKS,
            all_looks: ALL_LOOKS,
        }
    }

    /// With such a buffer, for a thread of a process; nothing is read directly.
    pub(crate) fn of(copy: Place, process: u32) -> Self {
        // Nothing lies between these two; nor are they constants, which vector registers would do.
        let span = Span::new(copy.address(), copy.address());
        Self { copy, span, process: u64::from(process), looks: LOOKS, all_looks: ALL_LOOKS }
    }

    /// An aligned word.
    #[inline(never)]
    pub(crate) fn load(&mut self, at: u64) -> Option<u64> {
        if !at.is_multiple_of(8) {
            return None;
        }
        if let Some(word) = self.span.peek(at) {
            return Some(word);
        }
        let page = page_of(at);
        if self.copy.at(LENGTH).get() == 0 || self.copy.at(FROM).get() != page {
            self.forget();
            self.vector(0, self.copy.at(DATA).address(), PAGE);
            self.vector(1, page, PAGE);
            self.fetch(1, 1, PAGE)?;
            self.keep(page);
        }
        Some(self.copy.at(DATA + (at - page) as usize).get())
    }

    /// A word of the stack that the thread stands on.
    pub(crate) fn peek(&self, at: u64) -> Option<u64> {
        self.span.peek(at)
    }

    /// An aligned word, without a look at what lies around it.
    #[inline(never)]
    pub(crate) fn load_alone(&mut self, at: u64) -> Option<u64> {
        if !at.is_multiple_of(8) {
            return None;
        }
        self.vector(0, self.copy.at(WORDS).address(), 8);
        self.vector(1, at, 8);
        self.fetch(1, 1, 8)?;
        Some(self.copy.at(WORDS).get())
    }

    /// Looks at two words, and in the same look at the page that will be asked for next, if that
    /// is known.
    #[inline(never)]
    pub(crate) fn load_both(&mut self, first: u64, second: u64, page: u64) -> Option<()> {
        self.forget();
        self.vector(0, self.copy.at(WORDS).address(), 16);
        self.vector(1, self.copy.at(DATA).address(), PAGE);
        self.vector(2, first, 8);
        self.vector(3, second, 8);
        self.vector(4, page, PAGE);
        if page != 0 && self.fetch(2, 3, 16 + PAGE).is_some() {
            self.keep(page);
        } else {
            self.fetch(2, 2, 16)?;
        }
        Some(())
    }

    /// Four words in one look, without a look at what lies around them.
    #[inline(never)]
    pub(crate) fn load_four(
        &mut self,
        first: u64,
        second: u64,
        third: u64,
        last: u64,
    ) -> Option<()> {
        self.vector(0, self.copy.at(WORDS).address(), 32);
        self.vector(1, first, 8);
        self.vector(2, second, 8);
        self.vector(3, third, 8);
        self.vector(4, last, 8);
        self.fetch(1, 4, 32)
    }

    /// The first one of these, or of two words.
    pub(crate) fn first(&self) -> u64 {
        self.copy.at(WORDS).get()
    }

    /// The second one.
    pub(crate) fn second(&self) -> u64 {
        self.copy.at(WORDS + 8).get()
    }

    /// The third one.
    pub(crate) fn third(&self) -> u64 {
        self.copy.at(WORDS + 16).get()
    }

    /// The last one of four.
    pub(crate) fn last(&self) -> u64 {
        self.copy.at(WORDS + 24).get()
    }

    /// Notes a place of which so many bytes are to be copied, as one of a few in one look.
    #[inline(never)]
    pub(crate) fn want(&mut self, number: usize, at: u64, length: u64) {
        self.vector(WANTED + 1 + number, at, length);
    }

    /// Copies the first places noted, one behind the other, from this word of those gathered on; answers how
    /// many bytes that were before one that is not there.
    #[inline(never)]
    pub(crate) fn gather(&mut self, to: usize, places: usize, bytes: u64) -> u64 {
        self.vector(WANTED, self.copy.at(GATHERED + to * 8).address(), bytes);
        self.copied(WANTED, 1, places as u64).filter(|&copied| copied <= bytes).unwrap_or(0)
    }

    /// A word of those gathered.
    pub(crate) fn gathered(&self, word: usize) -> u64 {
        self.copy.at(GATHERED + word * 8).get()
    }

    /// Where that is.
    pub(crate) fn gathered_at(&self, word: usize) -> u64 {
        self.copy.at(GATHERED + word * 8).address()
    }

    /// A word that is put aside while others are read.
    pub(crate) fn aside(&self, word: usize) -> Place {
        self.copy.at(ASIDE + word * 8)
    }

    /// Copies so many bytes, or as many as there are to the end of the page; answers how many.
    #[inline(never)]
    pub(crate) fn copy(&mut self, to: Place, at: u64, length: u64) -> u64 {
        for length in [length, length.min(PAGE - at % PAGE)] {
            self.vector(0, to.address(), length);
            self.vector(1, at, length);
            if self.fetch(1, 1, length).is_some() {
                return length;
            }
        }
        0
    }

    /// As many looks as at first.
    pub(crate) fn begin_again(&mut self) {
        self.looks = LOOKS;
    }

    fn forget(&self) {
        self.copy.at(LENGTH).set(0);
    }

    fn keep(&self, page: u64) {
        self.copy.at(FROM).set(page);
        self.copy.at(LENGTH).set(PAGE);
    }

    fn vector(&self, number: usize, at: u64, length: u64) {
        let vector = self.copy.at(VECTORS + number * 16);
        vector.set(at);
        vector.at(8).set(length);
    }

    /// Has so many vectors filled from the ones behind them; all of it, or nothing counts.
    #[inline(never)]
    fn fetch(&mut self, to: u64, from: u64, length: u64) -> Option<()> {
        self.copied(0, to, from).filter(|&copied| copied == length).map(|_| ())
    }

    /// The same with vectors from a first one on; answers how many bytes that are, if there are any.
    #[inline(never)]
    fn copied(&mut self, first: usize, to: u64, from: u64) -> Option<u64> {
        self.looks = self.looks.checked_sub(1)?;
        self.all_looks = self.all_looks.checked_sub(1)?;
        let vectors = self.copy.at(VECTORS + first * 16);
        let sources = vectors.at(to as usize * 16).address();
        let copied = arch::copy_memory(self.process, (vectors.address(), to), (sources, from));
        (copied > 0).then_some(copied as u64)
    }
}

/// The page of an address.
pub(crate) fn page_of(at: u64) -> u64 {
    at & !(PAGE - 1)
}

impl Drop for Far {
    fn drop(&mut self) {
        self.copy.at(BUSY).word().store(0, Release);
    }
}
