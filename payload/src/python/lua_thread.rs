//! Which thread of Lua's (a coroutine) runs: nothing says that. It is an argument of nearly every function of Lua's,
//! so it is among the registers that a call keeps, or in the stack above it.

use heapattach_abi::{python::Order, region, row};

use super::Python;
use crate::{
    arch,
    frame::{ASKS, Frame},
    row::Row,
    shared_word::Place,
};

/// Words that are looked at: the six registers that were kept below the frame of the hook, and of the stack above.
const KEPT: u64 = 8;
const ABOVE: u64 = 160;
/// Words that may lead to a thread, at most.
const CANDIDATES: usize = 28;
/// Where programs have memory.
const LEAST: u64 = 1 << 22;
const MOST: u64 = 1 << 47;
/// In an object: what it is, in the second word. A thread.
pub(super) const KIND_AT: u64 = 8;
const THREAD: u64 = 8;
/// Of a thread so many words are read together, from this word gathered on.
const STATE_WORDS: usize = 12;
const STATE: usize = CANDIDATES;
/// Values are valid so far behind their end.
const EXTRA: u64 = 128;

impl Python {
    /// The innermost call of the thread of Lua's that runs, if there is one.
    #[inline(never)]
    pub(super) fn innermost_of_lua(&mut self, row: &Row, frame: &Frame) -> Option<u64> {
        let known = row.field(row::PYTHON_STATE);
        let wanted = self.candidates(frame);
        // It is mostly the one of the last time: what lies behind that is not looked at then.
        let mut until = self.up_to(known.get(), wanted);
        let mut next = 0;
        while next < wanted {
            if next == until {
                until = wanted;
            }
            if let Some(state) = self.known_kind(next) {
                if state & self.order(Order::Foreign) == THREAD
                    && let Some(call) = self.call_of(self.far.aside(next).get(), known)
                {
                    return Some(call);
                }
                next += 1;
                continue;
            }
            // As many as there are before one that is not.
            for number in next..until {
                let kind = self.far.aside(number).get().wrapping_add(KIND_AT);
                self.far.want(number - next, kind, 8);
            }
            let left = until - next;
            let there = next + self.far.gather_words(next, left);
            for number in next..there {
                let is_thread = self.far.gathered(number) & self.order(Order::Foreign) == THREAD;
                let state = self.far.aside(number).get();
                if is_thread && let Some(call) = self.call_of(state, known) {
                    return Some(call);
                }
            }
            next = if there == until { until } else { there + 1 };
        }
        None
    }

    /// What the object is that a word may lead to, if it is known that its page is there.
    #[inline(never)]
    fn known_kind(&mut self, number: usize) -> Option<u64> {
        let kind = self.far.aside(number).get().wrapping_add(KIND_AT);
        if self.far.holds(kind) { self.far.load_alone(kind) } else { None }
    }

    /// How many words were put aside up to this one; all of them if it is not among them.
    #[inline(never)]
    fn up_to(&self, word: u64, wanted: usize) -> usize {
        for number in 0..wanted {
            if self.far.aside(number).get() == word {
                return number + 1;
            }
        }
        wanted
    }

    /// Puts words aside that may lead to a thread: the nearest first.
    fn candidates(&self, frame: &Frame) -> usize {
        let own = (&raw const *frame).addr() as u64;
        let mut wanted = self.consider(frame, 0, frame.rbp);
        for number in 2..KEPT {
            // What lies there is of the functions that called this one.
            wanted = self.consider(frame, wanted, arch::read(own.wrapping_sub(number * 8)));
        }
        let above = frame.stack_pointer();
        for number in 1..ABOVE {
            let Some(word) = self.far.peek(above.wrapping_add(number * 8)) else { break };
            wanted = self.consider(frame, wanted, word);
        }
        wanted
    }

    #[inline(never)]
    fn consider(&self, frame: &Frame, wanted: usize, word: u64) -> usize {
        let is_one = word & 7 == 0 && (LEAST..MOST).contains(&word) && !self.is_elsewhere(word);
        if !is_one || wanted == CANDIDATES || self.far.peek(word).is_some() {
            return wanted;
        }
        if self.is_moved(frame, word) {
            return wanted;
        }
        for number in 0..wanted {
            if self.far.aside(number).get() == word {
                return wanted;
            }
        }
        if self.far.lacks(word.wrapping_add(KIND_AT)) {
            return wanted;
        }
        self.far.aside(wanted).set(word);
        wanted + 1
    }

    /// Whether nothing of Lua's lies there: that is the C library's, or ours.
    fn is_elsewhere(&self, word: u64) -> bool {
        let (start, end) = (self.order(Order::Direct), self.order(Order::DirectEnd));
        word.wrapping_sub(start) < end.wrapping_sub(start) || self.far.is_own(word)
    }

    /// Whether a word leads to what the call of brk that is recorded took away or brought just now: nothing is there. Where
    /// its end was before is noted only where pages are read directly.
    fn is_moved(&self, frame: &Frame, word: u64) -> bool {
        let (before, end) = (frame.gone, self.far.last_break());
        let is_brk = frame.begun & ASKS != 0 && frame.arguments[0] == end;
        let is_known = self.order(Order::Direct) != 0 && before != region::ADDRESS_END;
        is_brk && is_known && (end.min(before)..=end.max(before)).contains(&word)
    }

    /// The innermost call of a thread, if it runs.
    #[inline(never)]
    fn call_of(&mut self, state: u64, known: Place) -> Option<u64> {
        self.far.want(0, state, STATE_WORDS as u64 * 8);
        if self.far.gather(STATE, 1, STATE_WORDS as u64 * 8) != STATE_WORDS as u64 * 8 {
            return None;
        }
        let word = |python: &Self, order| {
            python.far.gathered(STATE + (python.order(order) as usize / 8).min(STATE_WORDS - 1))
        };
        let (call, first) = (word(self, Order::Current), word(self, Order::Values));
        let end = word(self, Order::ValuesEnd).wrapping_add(EXTRA);
        // Only 5.1 says these two.
        let step = self.order(Order::Step);
        self.statement = if step == 0 { 0 } else { word(self, Order::CurrentIn) };
        self.end = if step == 0 { 0 } else { word(self, Order::FirstCall) };
        let [function, previous] =
            [Order::Code, Order::Previous].map(|order| call.wrapping_add(self.order(order)));
        self.far.load_four(function, previous, function, previous)?;
        let function = self.far.first();
        if function < first || function >= end {
            return None;
        }
        known.set(state);
        let is_idle = if step == 0 { self.far.second() == 0 } else { call == self.end };
        (!is_idle).then_some(call)
    }
}
