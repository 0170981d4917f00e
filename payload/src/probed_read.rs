//! Memory of the target's own that may not be mapped: read through the kernel, which says so
//! instead of faulting. It is read by pages, several with one call, and these are kept as long as a look lasts: what
//! an interpreter knows of its functions lies close together. The thread is in a call of the program's meanwhile.

use core::sync::atomic::Ordering::Release;

use heapattach_abi::{
    copies::{
        ASIDE, BUSY, COPY_BYTES, DATA, GATHERED, GATHERED_COUNT, PAGES, TAGS, VECTORS, WANTED,
        WANTED_COUNT, WORDS,
    },
    python::{ORDERS_AT, Order},
};

use crate::{arch, bounds, cells::Cells, readable::Span, row::Row, shared_word::Place};

const PAGE: u64 = 4096;
/// What needs more calls of the kernel than this is none of ours.
const LOOKS: u32 = 96;
/// All of them in one call of the program's, however often a walk begins again: nothing may keep a thread here.
const ALL_LOOKS: u32 = 1 << 14;
/// No page is there.
const NO_PAGE: u64 = 1;

/// A reader of far memory. The stack that the thread stands on is read directly.
pub(crate) struct Far {
    copy: Place,
    span: Span,
    process: u64,
    looks: u32,
    all_looks: u32,
}

/// Pages that are to be copied with one call: how many, and above that, by where they are kept, which must stay or come.
type Batch = u64;
const COUNT: u64 = 0xff;
const TAKEN: u32 = 8;

impl Far {
    /// With a buffer that it gives back.
    #[inline(always)]
    pub(crate) fn new(copy: Place, cells: &Cells, row: &Row, pointer: u64) -> Self {
        let (ceiling, _) = bounds::end_of_stack(cells.region(), row, pointer);
        let process = cells.control().at(ORDERS_AT + Order::Process as usize).get();
        Self::empty(copy, Span::new(pointer, ceiling), process)
    }

    /// With such a buffer, for a thread of a process; nothing is read directly.
    pub(crate) fn of(copy: Place, process: u32) -> Self {
        // Nothing lies between these two; nor are they constants, which vector registers would do.
        let span = Span::new(copy.address(), copy.address());
        Self::empty(copy, span, u64::from(process))
    }

    #[inline(always)]
    fn empty(copy: Place, span: Span, process: u64) -> Self {
        for number in 0..PAGES {
            copy.at(TAGS + number * 8).set(NO_PAGE);
        }
        Self { copy, span, process, looks: LOOKS, all_looks: ALL_LOOKS }
    }

    /// An aligned word.
    #[inline(never)]
    pub(crate) fn load(&mut self, at: u64) -> Option<u64> {
        if at.is_multiple_of(8)
            && let Some(word) = self.span.peek(at)
        {
            return Some(word);
        }
        self.load_alone(at)
    }

    /// A word of the stack that the thread stands on.
    pub(crate) fn peek(&self, at: u64) -> Option<u64> {
        self.span.peek(at)
    }

    /// An aligned word, wherever it is.
    #[inline(never)]
    pub(crate) fn load_alone(&mut self, at: u64) -> Option<u64> {
        if self.kept(at).is_none() {
            let batch = self.add(0, at);
            self.fetch(batch)?;
        }
        self.kept(at)
    }

    /// Looks at two words, and in the same look at the page that will be asked for next, if that
    /// is known.
    #[inline(never)]
    pub(crate) fn load_both(&mut self, first: u64, second: u64, page: u64) -> Option<()> {
        let page = if page == 0 { second } else { page };
        self.look_ahead(first, second, page, page);
        let (first, second) = (self.load_alone(first)?, self.load_alone(second)?);
        self.word(0).set(first);
        self.word(1).set(second);
        Some(())
    }

    /// Four words in one look.
    #[inline(never)]
    pub(crate) fn load_four(
        &mut self,
        first: u64,
        second: u64,
        third: u64,
        last: u64,
    ) -> Option<()> {
        self.look_ahead(first, second, third, last);
        let (first, second) = (self.load_alone(first)?, self.load_alone(second)?);
        let (third, last) = (self.load_alone(third)?, self.load_alone(last)?);
        self.word(0).set(first);
        self.word(1).set(second);
        self.word(2).set(third);
        self.word(3).set(last);
        Some(())
    }

    /// The first one of these, or of two words.
    pub(crate) fn first(&self) -> u64 {
        self.word(0).get()
    }

    /// The second one.
    pub(crate) fn second(&self) -> u64 {
        self.word(1).get()
    }

    /// The third one.
    pub(crate) fn third(&self) -> u64 {
        self.word(2).get()
    }

    /// The last one of four.
    pub(crate) fn last(&self) -> u64 {
        self.word(3).get()
    }

    /// Notes a place of which so many bytes are to be copied, as one of a few in one look.
    #[inline(never)]
    pub(crate) fn want(&mut self, number: usize, at: u64, length: u64) {
        let wanted = self.wanted(number);
        wanted.set(at);
        wanted.at(8).set(length);
    }

    /// Copies the first places noted, one behind the other, from this word of those gathered on; answers how
    /// many bytes that were before one that is not there.
    #[inline(never)]
    pub(crate) fn gather(&mut self, to: usize, places: usize, bytes: u64) -> u64 {
        let most = (GATHERED_COUNT.saturating_sub(to) * 8) as u64;
        let bytes = bytes.min(most);
        let (mut number, mut done) = (0, 0);
        while number < places {
            let (mut at, length) = (self.wanted(number).get(), self.wanted(number).at(8).get());
            let end = at.wrapping_add(length);
            while at != end {
                let Some(word) = self.wanted_word(at, number, places) else { return done };
                if done >= bytes {
                    return done;
                }
                self.copy.at(GATHERED + to * 8 + done as usize).set(word);
                at = at.wrapping_add(8);
                done += 8;
            }
            number += 1;
        }
        done
    }

    /// A word of a place; those of the next places are copied with it.
    #[inline(always)]
    fn wanted_word(&mut self, at: u64, number: usize, places: usize) -> Option<u64> {
        // What is not looked at is said to be here.
        if at.wrapping_sub(self.copy.address()) < COPY_BYTES as u64 {
            return Some(0);
        }
        match self.kept(at) {
            Some(word) => Some(word),
            None => self.fetch_wanted(at, number, places),
        }
    }

    #[inline(never)]
    fn fetch_wanted(&mut self, at: u64, number: usize, places: usize) -> Option<u64> {
        let mut batch = self.add(0, at);
        for next in number..places {
            let wanted = self.wanted(next);
            let (at, length) = (wanted.get(), wanted.at(8).get());
            if at.wrapping_sub(self.copy.address()) >= COPY_BYTES as u64 {
                batch = self.add(batch, at);
                batch = self.add(batch, at.wrapping_add(length).wrapping_sub(8));
            }
        }
        self.fetch(batch)?;
        self.kept(at)
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
            self.vector(PAGES, at, length);
            if self.copied(1) == Some(length) {
                return length;
            }
        }
        0
    }

    /// As many looks as at first.
    pub(crate) fn begin_again(&mut self) {
        self.looks = LOOKS;
    }

    fn word(&self, number: usize) -> Place {
        self.copy.at(WORDS + number * 8)
    }

    fn wanted(&self, number: usize) -> Place {
        self.copy.at(WANTED + (number & (WANTED_COUNT - 1)) * 16)
    }

    /// An aligned word, if its page is kept.
    #[inline(always)]
    fn kept(&self, at: u64) -> Option<u64> {
        let number = kept_at(at);
        let is_there = at & 7 == 0 && self.copy.at(TAGS + number * 8).get() == page_of(at);
        is_there.then(|| self.copy.at(DATA + number * PAGE as usize + (at % PAGE) as usize).get())
    }

    /// Copies the pages of these, as far as they are not kept.
    #[inline(never)]
    fn look_ahead(&mut self, first: u64, second: u64, third: u64, last: u64) {
        let mut batch = self.add(0, first);
        batch = self.add(batch, second);
        batch = self.add(batch, third);
        batch = self.add(batch, last);
        if batch & COUNT != 0 {
            let _ = self.fetch(batch);
        }
    }

    /// Adds the page of a place to those that are to be copied, unless it is kept, or would take the place of another.
    #[inline(never)]
    fn add(&self, batch: Batch, at: u64) -> Batch {
        let (page, number) = (page_of(at), kept_at(at));
        let own = 1 << (TAKEN + number as u32);
        if batch & own != 0 {
            return batch;
        }
        let tag = self.copy.at(TAGS + number * 8);
        if tag.get() == page {
            return batch | own;
        }
        tag.set(NO_PAGE);
        let next = (batch & COUNT) as usize;
        self.vector(next, self.copy.at(DATA + number * PAGE as usize).address(), PAGE);
        self.vector(PAGES + next, page, PAGE);
        (batch | own) + 1
    }

    /// Copies pages, up to one that is not there.
    #[inline(never)]
    fn fetch(&mut self, batch: Batch) -> Option<()> {
        let mut left = self.copied(batch & COUNT)?;
        let mut number = 0;
        while left >= PAGE && number < PAGES {
            let page = self.copy.at(VECTORS + (PAGES + number) * 16).get();
            self.copy.at(TAGS + kept_at(page) * 8).set(page);
            number += 1;
            left -= PAGE;
        }
        Some(())
    }

    fn vector(&self, number: usize, at: u64, length: u64) {
        let vector = self.copy.at(VECTORS + number * 16);
        vector.set(at);
        vector.at(8).set(length);
    }

    /// Has the first vectors filled from those that say where from; answers how many bytes that are, if there are any.
    #[inline(never)]
    fn copied(&mut self, count: u64) -> Option<u64> {
        self.looks = self.looks.checked_sub(1)?;
        self.all_looks = self.all_looks.checked_sub(1)?;
        let vectors = self.copy.at(VECTORS).address();
        let sources = self.copy.at(VECTORS + PAGES * 16).address();
        let copied = arch::copy_memory(self.process, (vectors, count), (sources, count));
        (copied > 0).then_some(copied as u64)
    }
}

/// Which of the pages that are kept that of an address is, if it is.
fn kept_at(at: u64) -> usize {
    (at / PAGE) as usize & (PAGES - 1)
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
