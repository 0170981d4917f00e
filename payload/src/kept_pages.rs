//! Pages of memory that may not be mapped, copied by the kernel, several with one call, and kept while a look lasts: what
//! an interpreter knows of its functions lies close together.

use heapattach_abi::copies::{DATA, PAGES, TAGS, VECTORS};

use crate::{arch, shared_word::Place};

const PAGE: u64 = 4096;
/// What needs more calls of the kernel than this is none of ours.
const LOOKS: u32 = 96;
/// All of them in one call of the program's, however often a walk begins again: nothing may keep a thread here.
const ALL_LOOKS: u32 = 1 << 14;
/// No page is there.
const NO_PAGE: u64 = 1;

/// Pages that are to be copied with one call: how many, and above that, by where they are kept, which must stay or come.
pub(crate) type Batch = u64;
pub(crate) const COUNT: u64 = 0xff;
const TAKEN: u32 = 8;

/// A buffer with such pages, and how often the kernel may still be called.
pub(crate) struct KeptPages {
    copy: Place,
    process: u64,
    looks: u32,
    all_looks: u32,
}

impl KeptPages {
    /// None yet, of a process.
    #[inline(always)]
    pub(crate) fn none(copy: Place, process: u64) -> Self {
        for number in 0..PAGES {
            copy.at(TAGS + number * 8).set(NO_PAGE);
        }
        Self { copy, process, looks: LOOKS, all_looks: ALL_LOOKS }
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
        self.vector(PAGES, at, length);
        if self.copied(1) == Some(length) { length } else { 0 }
    }

    /// As many looks as at first.
    pub(crate) fn begin_again(&mut self) {
        self.looks = LOOKS;
    }

    /// An aligned word, if its page is kept.
    #[inline(never)]
    pub(crate) fn kept(&self, at: u64) -> Option<u64> {
        let number = kept_at(at);
        let is_there = at & 7 == 0 && self.copy.at(TAGS + number * 8).get() == page_of(at);
        is_there.then(|| self.copy.at(DATA + number * PAGE as usize + (at % PAGE) as usize).get())
    }

    /// Adds the page of a place to those that are to be copied, unless it is kept, or would take the place of another.
    #[inline(never)]
    pub(crate) fn add(&self, batch: Batch, at: u64) -> Batch {
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
    pub(crate) fn fetch(&mut self, batch: Batch) -> Option<()> {
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
