//! Memory of the target's own that may not be mapped: read through the kernel, which says so
//! instead of faulting ([`crate::kept_pages`]). The thread is in a call of the program's meanwhile.

use heapattach_abi::{
    copies::{ASIDE, COPY_BYTES, GATHERED, GATHERED_COUNT, WANTED, WANTED_COUNT, WORDS},
    python::{ORDERS_AT, Order},
    region,
};

use crate::{
    bounds,
    cells::Cells,
    kept_pages::KeptPages,
    proven_pages::ProvenPages,
    readable::{self, Span},
    row::Row,
    shared_word::Place,
};

/// A reader of far memory. The stack that the thread stands on is read directly.
pub(crate) struct Far {
    copy: Place,
    region: Place,
    span: Span,
    pages: KeptPages,
}

impl Far {
    /// With a buffer that it gives back.
    #[inline(always)]
    pub(crate) fn new(copy: Place, cells: &Cells, row: &Row, pointer: u64) -> Self {
        let (ceiling, _) = bounds::end_of_stack(cells.region(), row, pointer);
        let process = cells.control().at(ORDERS_AT + Order::Process as usize).get();
        let proven = ProvenPages::begin(cells, copy);
        let pages = KeptPages::none(copy, process, proven, cells.region());
        Self { copy, region: cells.region(), span: Span::new(pointer, ceiling), pages }
    }

    /// With such a buffer, for a thread of a process; nothing is read directly.
    pub(crate) fn of(region: Place, copy: Place, process: u32) -> Self {
        // Nothing lies between these two; nor are they constants, which vector registers would do.
        let span = Span::new(copy.address(), copy.address());
        let pages = KeptPages::none(copy, u64::from(process), ProvenPages::none(copy), region);
        Self { copy, region, span, pages }
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

    /// The same; of what lies together, at once.
    #[inline(always)]
    pub(crate) fn load_near(&mut self, at: u64) -> Option<u64> {
        match self.pages.proven().load_near(at) {
            Some(word) => Some(word),
            None => self.load(at),
        }
    }

    /// Whether it is known that the page of a place is there.
    #[inline(always)]
    pub(crate) fn holds(&mut self, at: u64) -> bool {
        self.pages.proven().holds(at)
    }

    /// Whether a place is in the memory that we brought.
    pub(crate) fn is_own(&self, at: u64) -> bool {
        at.wrapping_sub(self.region.address()) < region::SLOTS_AT as u64
    }

    /// A word of the stack that the thread stands on.
    pub(crate) fn peek(&self, at: u64) -> Option<u64> {
        self.span.peek(at)
    }

    /// An aligned word, wherever it is.
    #[inline(never)]
    pub(crate) fn load_alone(&mut self, at: u64) -> Option<u64> {
        if let Some(word) = self.pages.kept(at) {
            return Some(word);
        }
        if !at.is_multiple_of(8) || !self.pages.begin_with(at) {
            return None;
        }
        self.pages.fetch();
        self.pages.kept(at)
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

    /// Copies a word of each of the first places noted, wherever they may lead, one behind the other, from this one of those
    /// gathered on; answers how many there are before one that is not there.
    #[inline(never)]
    pub(crate) fn gather_words(&mut self, to: usize, places: usize) -> usize {
        let first = self.copy.at(WANTED);
        let copied = self.pages.copy_words(self.copy.at(GATHERED + to * 8), first, places);
        if copied < places {
            self.pages.note_absent(first.at(copied * 16).get());
        }
        copied
    }

    /// Where the heap of brk ends, as far as that was seen.
    pub(crate) fn last_break(&self) -> u64 {
        self.region.at(region::LAST_BREAK).get()
    }

    /// Whether it is known of a place that nothing is there.
    pub(crate) fn lacks(&self, at: u64) -> bool {
        self.pages.lacks(at)
    }

    /// A word of a place; those of the next places are copied with it.
    #[inline(always)]
    fn wanted_word(&mut self, at: u64, number: usize, places: usize) -> Option<u64> {
        // What is not looked at is said to be here.
        if at.wrapping_sub(self.copy.address()) < COPY_BYTES as u64 {
            return Some(0);
        }
        match self.pages.kept(at) {
            Some(word) => Some(word),
            None => self.fetch_wanted(at, number, places),
        }
    }

    #[inline(never)]
    fn fetch_wanted(&mut self, at: u64, number: usize, places: usize) -> Option<u64> {
        if !at.is_multiple_of(8) || !self.pages.begin_with(at) {
            return None;
        }
        for next in number..places {
            let wanted = self.wanted(next);
            let (at, length) = (wanted.get(), wanted.at(8).get());
            if at.wrapping_sub(self.copy.address()) >= COPY_BYTES as u64 {
                self.pages.add(at);
                self.pages.add(at.wrapping_add(length).wrapping_sub(8));
            }
        }
        self.pages.fetch();
        self.pages.kept(at)
    }

    /// Copies so many bytes, or as many as there are to the end of the page; answers how many.
    pub(crate) fn copy(&mut self, to: Place, at: u64, length: u64) -> u64 {
        self.pages.copy(to, at, length)
    }

    /// Has everything copied from here on, or only what is not known to be there.
    pub(crate) fn trust(&mut self, is_trusted: bool) {
        self.pages.proven().trust(is_trusted);
    }

    /// As many calls of the kernel as at first.
    pub(crate) fn begin_again(&mut self) {
        self.pages.begin_again();
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

    fn word(&self, number: usize) -> Place {
        self.copy.at(WORDS + number * 8)
    }

    fn wanted(&self, number: usize) -> Place {
        self.copy.at(WANTED + (number & (WANTED_COUNT - 1)) * 16)
    }

    /// Copies the pages of these, as far as they are not kept and are there.
    #[inline(never)]
    pub(crate) fn look_ahead(&mut self, first: u64, second: u64, third: u64, last: u64) {
        self.pages.begin();
        self.pages.add(first);
        self.pages.add(second);
        self.pages.add(third);
        self.pages.add(last);
        if self.pages.has_work() {
            self.pages.fetch();
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        readable::give_back(self.region, self.copy);
    }
}
