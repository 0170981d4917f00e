//! The thread of CPython that this one is, and its frames.

use heapattach_abi::{
    python::{self, Order},
    row,
};

use super::{LONGEST_WAIT, Python, THREADS, is_due, ruby::Seen};
use crate::{arch, kept_pages, row::Row};

/// Interpreters that are looked at for the thread.
const INTERPRETERS: usize = 16;

impl Python {
    /// The innermost frame of this thread, if it runs any.
    #[inline(always)]
    pub(super) fn innermost_of_cpython(&mut self, row: &Row) -> Option<u64> {
        let (known, page) = (row.field(row::PYTHON_STATE), row.field(row::PYTHON_PAGE));
        let state = known.get();
        if state != 0
            && let Some(said) = self.said_by(state, page.get())
        {
            let frame = self.current(said)?;
            if frame != 0 {
                page.set(kept_pages::page_of(frame));
                return Some(frame);
            }
        }
        // It has none, or another one by now: extensions make one for each call into Python.
        if !is_due(row, LONGEST_WAIT) {
            return None;
        }
        known.set(0);
        let state = self.find()?;
        known.set(state);
        let said = self.said_by(state, 0)?;
        let frame = self.current(said)?;
        (frame != 0).then(|| {
            row.field(row::PYTHON_WAIT).set(0);
            frame
        })
    }

    /// Where the state of this thread says its innermost frame is, if this is its state; `page` is where the frame may be.
    #[inline(always)]
    fn said_by(&mut self, state: u64, page: u64) -> Option<u64> {
        let pointer = state.wrapping_add(self.order(Order::ThreadPointer));
        let current = state.wrapping_add(self.order(Order::Current));
        if !self.far.holds(pointer) || !self.far.holds(current) {
            let page = if page == 0 { current } else { page };
            self.far.look_ahead(pointer, current, page, page);
        }
        let is_own = self.far.load_alone(pointer)? == arch::thread_pointer();
        let said = self.far.load_near(current)?;
        is_own.then_some(said)
    }

    /// The innermost frame, by what the state says; 0 if there is none.
    fn current(&mut self, said: u64) -> Option<u64> {
        match self.order(Order::CurrentIn) {
            0 => Some(said),
            inside => self.far.load(said.wrapping_add(inside - 1)),
        }
    }

    /// Looks for the state of this thread.
    #[inline(never)]
    fn find(&mut self) -> Option<u64> {
        // Other threads end meanwhile.
        self.far.trust(false);
        let found = self.find_among_all();
        self.far.trust(true);
        found
    }

    #[inline(never)]
    fn find_among_all(&mut self) -> Option<u64> {
        let own = arch::thread_pointer();
        let first = self.order(Order::Runtime).wrapping_add(self.order(Order::Interpreters));
        let mut interpreter = self.far.load_alone(first)?;
        for _ in 0..INTERPRETERS {
            if interpreter == 0 {
                return None;
            }
            let mut state =
                self.far.load_alone(interpreter.wrapping_add(self.order(Order::Threads)))?;
            for _ in 0..THREADS {
                if state == 0 {
                    break;
                }
                if self.far.load(state.wrapping_add(self.order(Order::ThreadPointer)))? == own {
                    return Some(state);
                }
                state = self.far.load(state.wrapping_add(self.order(Order::NextThread)))?;
            }
            interpreter = self
                .far
                .load_alone(interpreter.wrapping_add(self.order(Order::NextInterpreter)))?;
        }
        None
    }

    /// A look at a frame.
    #[inline(always)]
    pub(super) fn see_cpython(&mut self, frame: u64) -> Option<Seen> {
        let mark_at = frame.wrapping_add(self.order(Order::Mark));
        let mark =
            self.far.load_near(mark_at & !7)? >> ((mark_at & 7) * 8) & self.order(Order::MarkMask);
        // The lowest bits say who else refers to it.
        let code = self.near(frame, Order::Code)? & !7;
        let first = code.wrapping_add(self.order(Order::Instructions));
        let word =
            python::pack(code, self.near(frame, Order::Instruction)?.wrapping_sub(first) >> 1);
        let previous = self.near(frame, Order::Previous)?;
        Some(Seen { mark, word, previous })
    }

    #[inline(always)]
    fn near(&mut self, frame: u64, order: Order) -> Option<u64> {
        self.far.load_near(frame.wrapping_add(self.order(order)))
    }
}
