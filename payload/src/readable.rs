//! Which words of a stack a walk may read, and how: directly what is certainly mapped; the rest, if
//! the user wants it, by asking the kernel for a copy, which cannot fault.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use heapattach_abi::{
    control,
    copies::{self, COPIES, COPY_BYTES},
    region,
    stacks::End,
};

use crate::{arch, bounds, cells::Cells, row::Row, shared_word::Place};

/// Memory that is mapped: of a stack, from the stack pointer on.
pub(crate) struct Span {
    floor: u64,
    ceiling: u64,
    /// Words begin less than so far above the floor.
    length: u64,
}

/// What may be read.
pub(crate) struct Reach {
    region: Place,
    row: Row,
    span: Span,
    is_bounded: bool,
    may_copy: bool,
    /// A buffer for copies, ours until the end.
    copy: Option<Place>,
}

impl Span {
    pub(crate) fn new(floor: u64, ceiling: u64) -> Self {
        let length = ceiling.saturating_sub(floor).saturating_sub(7);
        Self { floor, ceiling, length }
    }

    /// A word of it, wherever it begins.
    #[inline(always)]
    pub(crate) fn peek(&self, at: u64) -> Option<u64> {
        // The last word ends with the memory.
        (at.wrapping_sub(self.floor) < self.length).then(|| arch::read(at))
    }
}

impl Reach {
    /// From the stack pointer of a thread on.
    #[inline]
    pub(crate) fn new(cells: &Cells, row: &Row, pointer: u64) -> Self {
        let region = cells.region();
        let (ceiling, is_bounded) = bounds::end_of_stack(region, row, pointer);
        let may_copy = cells.control().at(control::MAY_COPY).half().load(Relaxed) != 0;
        let copy = if may_copy && !is_bounded { claim(region) } else { None };
        let span = Span::new(pointer, ceiling);
        Self { region, row: *row, span, is_bounded, may_copy, copy }
    }

    /// Whether all of the stack is known.
    pub(crate) fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    /// Whether an address is one of the stack.
    pub(crate) fn contains(&self, at: u64) -> bool {
        (self.span.floor..self.span.ceiling).contains(&at)
    }

    /// The walk goes on at `pointer`, on another stack perhaps: a signal arrived there.
    #[cold]
    #[inline(never)]
    pub(crate) fn go_on_at(&mut self, pointer: u64) {
        if self.contains(pointer) {
            return;
        }
        let end = bounds::end_of_own_stack(&self.row, pointer);
        self.is_bounded = end.is_some();
        self.span = Span::new(pointer, end.unwrap_or(pointer));
        if self.may_copy && self.copy.is_none() && !self.is_bounded {
            self.copy = claim(self.region);
        }
    }

    /// What may be read directly.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// A word of the stack, if it is one.
    #[inline]
    pub(crate) fn load(&self, at: u64) -> Result<u64, End> {
        match self.span.peek(at) {
            Some(word) if at.is_multiple_of(8) => Ok(word),
            _ => self.load_copied(at),
        }
    }

    #[cold]
    #[inline(never)]
    fn load_copied(&self, at: u64) -> Result<u64, End> {
        match self.copy {
            Some(copy) if at.is_multiple_of(8) && at >= self.span.floor => {
                copied(copy, at).ok_or(End::Implausible)
            }
            _ if self.is_bounded => Err(End::Implausible),
            _ => Err(End::Unbounded),
        }
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        if let Some(copy) = self.copy {
            give_back(self.region, copy);
        }
    }
}

/// A buffer that no thread uses; none if there is none.
#[inline(never)]
pub(crate) fn claim(region: Place) -> Option<Place> {
    let own = arch::thread_pointer();
    for number in 0..COPIES {
        let user = region.at(region::LOOKS_AT + number * 8).word();
        let free = user.load(Relaxed);
        if region::looker(free) != 0 {
            continue;
        }
        let used = free.wrapping_add(region::ONE_LOOK) | own;
        // Before all that is read by it ([`crate::proven_pages`]).
        if user.compare_exchange(free, used, SeqCst, Relaxed).is_ok() {
            let copy = region.at(region::COPIES_AT + number * COPY_BYTES);
            copy.at(copies::LENGTH).set(0);
            return Some(copy);
        }
    }
    None
}

/// It is used no more.
#[inline(always)]
pub(crate) fn give_back(region: Place, copy: Place) {
    let user = region.at(region::LOOKS_AT + number_of(region, copy) * 8).word();
    let used = user.load(Relaxed);
    user.store(used - region::looker(used), Release);
}

/// Which buffer it is.
#[inline(always)]
pub(crate) fn number_of(region: Place, copy: Place) -> usize {
    let first = region.at(region::COPIES_AT).address();
    (copy.address().wrapping_sub(first) as usize / COPY_BYTES) & (COPIES - 1)
}

/// A word, out of the copy or of a new one: to the end of its page.
#[cold]
#[inline(never)]
fn copied(copy: Place, at: u64) -> Option<u64> {
    let field = |offset| copy.at(offset);
    let is_there = |from: u64, length: u64| at >= from && at - from < length;
    if !is_there(field(copies::FROM).get(), field(copies::LENGTH).get()) {
        let length = 4096 - (at & 4095);
        field(copies::FROM).set(at);
        field(copies::LENGTH).set(0);
        let data = copy.at(copies::DATA).address();
        for (offset, value) in [(0, data), (8, length), (16, at), (24, length)] {
            field(copies::VECTORS).at(offset).set(value);
        }
        let vectors = field(copies::VECTORS).address();
        let copied = arch::copy_memory(arch::process(), (vectors, 1), (vectors + 16, 1));
        if copied != length as i64 {
            return None;
        }
        field(copies::LENGTH).set(length);
    }
    Some(copy.at(copies::DATA + (at - field(copies::FROM).get()) as usize).get())
}
