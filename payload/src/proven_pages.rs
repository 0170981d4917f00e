//! Pages of the program's that the kernel said are there: what is in them is read directly from then on, until the program
//! makes a call by which they may go. Each such call is hooked where this is done ([`Order::Direct`]).
//!
//! Who looks says so, then asks whether pages go just now; who makes such a call says so, then waits for those who look.
//! So one of the two knows of the other: as long as pages go, no look that begins reads directly, and none that began
//! before is left. What is remembered of the pages is cleared then.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use heapattach_abi::{
    control,
    copies::{COPIES, COPY_BYTES, PROOFS, PROVEN},
    python::{ORDERS_AT, Order},
    region,
};

use crate::{arch, cells::Cells, readable, shared_word::Place};

const PAGE_BITS: u32 = 12;
/// So many pages share their places: a line of the processor's cache.
const WAYS: usize = 4;
/// After so many calls by which pages came, wherever these were, the kernel is asked again about what was not there.
const CAME_BITS: u32 = 6;
/// How often is looked whether others still look: at first at once, then with a nap before each, which is a second in all.
/// A look takes some hundred nanoseconds, but who looks may have no processor.
const AWAKE: u32 = 10_000;
const NAPS: u32 = 10_000;
/// Nanoseconds of a nap, and about as long without a call of the kernel.
const NAP: u64 = 100_000;
const PAUSES: u32 = 2_000;

/// What is remembered of pages in one buffer: for each the page, and what it is. One value that the program writes over
/// all of it says of no page that it is there.
pub(crate) struct ProvenPages {
    table: Place,
    /// The page that was last found to be there.
    last: u64,
    /// What a page is that was not there; 0: nothing is remembered, and all is copied.
    absent: u64,
    /// All ones, unless all is copied for a while.
    trusted: u64,
    /// Where the calls are counted by which pages came, and how many there were when the look began.
    came: Place,
    since: u64,
}

impl ProvenPages {
    /// Nothing is remembered.
    pub(crate) fn none(copy: Place) -> Self {
        let (table, came, since) = (copy.at(PROVEN), copy, copy.address());
        let mut pages = Self { table, last: u64::MAX, absent: 0, trusted: 0, came, since };
        // Not constants side by side, which vector registers would do.
        pages.trusted = pages.absent.wrapping_sub(copy.at(PROVEN).address() & 1);
        pages
    }

    /// What is remembered, unless pages go just now.
    #[inline(always)]
    pub(crate) fn begin(cells: &Cells, copy: Place) -> Self {
        let region = cells.region();
        let mut pages = Self::none(copy);
        if !is_on(cells) {
            return pages;
        }
        let number = readable::number_of(region, copy) as u64;
        let used = region.at(region::LOOKS_USED);
        if used.get() <= number {
            used.word().fetch_max(number + 1, SeqCst);
        }
        // Since the buffer is ours, who takes pages away knows of us.
        if region.at(region::PAGES_GO).word().load(SeqCst) != 0 || !is_on(cells) {
            return pages;
        }
        pages.came = region.at(region::PAGES_CAME);
        pages.since = pages.came.get();
        pages.absent = pages.since >> CAME_BITS << 1 | 1;
        pages.trusted = u64::MAX;
        pages
    }

    /// An aligned word, if it is known that its page is there.
    #[inline(always)]
    pub(crate) fn load(&mut self, at: u64) -> Option<u64> {
        if let Some(word) = self.load_near(at) {
            return Some(word);
        }
        if at & 7 != 0 || !self.holds(at) {
            return None;
        }
        self.last = at >> PAGE_BITS;
        Some(arch::read(at))
    }

    /// The same of the page that was last found to be there: as long as this look lasts, it is.
    #[inline(always)]
    pub(crate) fn load_near(&self, at: u64) -> Option<u64> {
        (at & 7 == 0 && at >> PAGE_BITS == self.last).then(|| arch::read(at))
    }

    /// Whether it is known that the page of a place is there.
    #[inline(never)]
    pub(crate) fn holds(&self, at: u64) -> bool {
        let page = at >> PAGE_BITS;
        // It is not that where nothing is trusted.
        what_is(self.table, page) & self.trusted == !page
    }

    /// Whether it is known that it is not.
    #[inline(never)]
    pub(crate) fn lacks(&self, at: u64) -> bool {
        self.absent != 0 && what_is(self.table, at >> PAGE_BITS) == self.absent
    }

    /// The kernel said whether the page of a place is there.
    #[inline(never)]
    pub(crate) fn note(&self, at: u64, is_there: bool) {
        if self.absent == 0 {
            return;
        }
        let page = at >> PAGE_BITS;
        let set = set_of(self.table, page);
        let mut way = 0;
        while way < WAYS - 1 && set.at(way * 16).get() != page {
            way += 1;
        }
        // Those before it go one further, so that it comes first, and the oldest is gone.
        while way > 0 {
            let (from, to) = (set.at((way - 1) * 16), set.at(way * 16));
            to.at(8).set(0);
            to.set(from.get());
            to.at(8).set(from.at(8).get());
            way -= 1;
        }
        set.at(8).set(0);
        set.set(page);
        if is_there {
            return set.at(8).set(!page);
        }
        // Who maps it counts that first, and forgets what is said here afterwards: one of the two sees the other.
        set.at(8).word().swap(self.absent, SeqCst);
        if self.came.word().load(SeqCst) != self.since {
            set.at(8).set(0);
        }
    }

    /// Whether what is there is read directly.
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        self.trusted != 0
    }

    /// Has all of it copied from here on, or no more.
    pub(crate) fn trust(&mut self, is_trusted: bool) {
        self.last = u64::MAX;
        self.trusted = if is_trusted && self.absent != 0 { u64::MAX } else { 0 };
    }
}

/// Before a call by which these pages may go: they are to be copied from now on.
#[cold]
#[inline(never)]
pub(crate) fn go(cells: &Cells, start: u64, end: u64) {
    cells.region().at(region::PAGES_GO).word().fetch_add(1, SeqCst);
    end_looks(cells, start, end);
}

/// The same where hooks are off: no look begins that reads directly.
#[cold]
#[inline(never)]
pub(crate) fn end_looks(cells: &Cells, start: u64, end: u64) {
    wait_for_looks(cells);
    clear(cells.region(), start, end);
}

/// Waits until each look of another thread that goes on now is over. Who begins later, in the same buffer perhaps, knows
/// better: pages go, or hooks are off.
#[cold]
#[inline(never)]
fn wait_for_looks(cells: &Cells) {
    let region = cells.region();
    let own = arch::thread_pointer();
    let may_sleep = cells.control().at(control::YIELD_MASK).half().load(Relaxed) != 0;
    // Who was ended in the middle is waited for once; after that without a nap.
    let is_known = region.at(region::NOTHING_DIRECT).get() == region::IN_VAIN;
    let naps = if is_known { 0 } else { NAPS };
    let mut patience = AWAKE + naps;
    let used = used(region);
    let looks = |buffer| region.at(region::LOOKS_AT + buffer * 8).word().load(SeqCst);
    let (mut buffer, mut first) = (0, looks(0));
    while buffer < used {
        let thread = region::looker(first);
        // A signal handler cannot wait for what it interrupted.
        if thread == 0 || thread == own || patience == 0 || looks(buffer) != first {
            buffer += 1;
            first = looks(buffer & (COPIES - 1));
            continue;
        }
        patience -= 1;
        if patience == 0 && !is_known {
            region.at(region::NOTHING_DIRECT).set(region::IN_VAIN);
        }
        wait(may_sleep, patience < naps);
    }
}

/// Once more, at the latest when the next nap is over.
#[inline(never)]
fn wait(may_sleep: bool, is_long: bool) {
    if is_long && may_sleep {
        return arch::sleep(NAP);
    }
    for _ in 0..if is_long { PAUSES } else { 1 } {
        arch::pause();
    }
}

/// After it.
#[cold]
#[inline(never)]
pub(crate) fn went(cells: &Cells) {
    if cells.is_at_home() {
        cells.region().at(region::PAGES_GO).word().fetch_sub(1, SeqCst);
    }
}

/// After a call by which these pages may have come.
#[inline(never)]
pub(crate) fn came(cells: &Cells, start: u64, end: u64) {
    if !may_be_direct(cells) {
        return;
    }
    let region = cells.region();
    region.at(region::PAGES_CAME).word().fetch_add(1, SeqCst);
    clear(region, start, end);
}

/// Whether pages may be read directly. They are not where we are not at home: that page reads zero there.
pub(crate) fn may_be_direct(cells: &Cells) -> bool {
    cells.control().at(ORDERS_AT + Order::Direct as usize).get() != 0
}

/// Whether they are.
fn is_on(cells: &Cells) -> bool {
    let is_off = cells.region().at(region::NOTHING_DIRECT).get() != 0;
    may_be_direct(cells) && !is_off && cells.is_enabled()
}

/// How many buffers have something in them.
fn used(region: Place) -> usize {
    (region.at(region::LOOKS_USED).word().load(SeqCst) as usize).min(COPIES)
}

/// Forgets what is known of pages.
#[inline(never)]
fn clear(region: Place, start: u64, end: u64) {
    if start >= end {
        return;
    }
    let (first, last) = (start >> PAGE_BITS, (end - 1) >> PAGE_BITS);
    // Of more pages than there is room for, any may be one.
    let has_many = last - first >= PROOFS as u64;
    let most = if has_many { PROOFS as u64 - 1 } else { last - first };
    let mut table = region.at(region::COPIES_AT + PROVEN);
    for _ in 0..used(region) {
        for number in 0..=most {
            if has_many {
                clear_one(table.at(number as usize * 16), first, last);
                continue;
            }
            let set = set_of(table, first + number);
            for way in 0..WAYS {
                clear_one(set.at(way * 16), first, last);
            }
        }
        table = table.at(COPY_BYTES);
    }
}

/// Forgets what a page is, if it is one of these.
fn clear_one(proof: Place, first: u64, last: u64) {
    if proof.get().wrapping_sub(first) <= last - first {
        proof.at(8).set(0);
    }
}

/// What is remembered of a page; 0 if nothing is.
#[inline(always)]
fn what_is(table: Place, page: u64) -> u64 {
    let mut proof = set_of(table, page);
    let mut left = WAYS;
    while left > 0 {
        if proof.get() == page {
            return proof.at(8).get();
        }
        proof = proof.at(16);
        left -= 1;
    }
    0
}

/// Where the first of a few pages is remembered of which this is one.
#[inline(always)]
fn set_of(table: Place, page: u64) -> Place {
    const BITS: u32 = ((PROOFS / WAYS) as u64).trailing_zeros();
    let set = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
    table.at(set as usize * WAYS * 16)
}
