//! Frames of Ruby: they lie one behind the other on a stack that the thread's state names, and what is known
//! of a function is behind its code.

use heapattach_abi::{
    python::{self, Order, RUBY_HEAD_BYTES},
    row, stacks,
};

use super::Python;
use crate::{arch, row::Row, shared_word::Place};

/// The first word of an object: what it is.
const KIND: u64 = 0x1f;
const ARRAY: u64 = 7;
/// Set in an array that holds its values itself, and in a text that does not hold its bytes.
const SHAPE: u64 = 1 << 13;
/// In an array, the first value, or where that is; in a text, where its bytes are.
const VALUES: u64 = 16;
const VALUES_AT: u64 = 32;
const BYTES_AT: usize = 24;
/// In the word behind the thread pointer: where a thread's variables are, by module.
const VARIABLES_AT: u64 = 8;
/// What leads from instructions to rows of the table of lines: a part of fixed size for the first ones, then one for
/// each of so many more.
const FIRST_BYTES: u64 = 48;
const FIRST: u64 = 54;
const BLOCK_BYTES: u64 = 80;
const BLOCK: u64 = 512;
const HALF: u64 = 0xffff_ffff;

/// Frames that are read together: of each, two words that lead to what is known of it, and then of that so many.
const BATCH: usize = 8;
const LEADS: usize = 2;
const KNOWN: usize = 14;
const KNOWN_AT: usize = BATCH * LEADS;

/// Bytes of a text's head.
const HEAD_BYTES: u64 = RUBY_HEAD_BYTES as u64;

/// A frame that was looked at.
pub(super) struct Seen {
    /// Whether the interpreter's loop was called for it.
    pub mark: u64,
    /// As a word; 0 if it runs no script.
    pub word: u64,
    /// The one that it was called from, or 0.
    pub previous: u64,
}

impl Python {
    /// Whether frames are Ruby's.
    pub(super) fn is_ruby(&self) -> bool {
        self.order(Order::Stride) != 0
    }

    /// The innermost frame of this thread, if it runs Ruby.
    pub(super) fn innermost_of_ruby(&mut self, row: &Row) -> Option<u64> {
        let state = self.state_of_ruby(row)?;
        if state == 0 {
            return None;
        }
        // Its stack of values, on whose end frames begin: where it is, and how many words it has.
        let current = state.wrapping_add(self.order(Order::Current));
        self.far.load_four(state, state.wrapping_add(8), current, current)?;
        let (first, words, frame) = (self.far.first(), self.far.second(), self.far.third());
        // The first frame of all runs nothing.
        let end = first.wrapping_add(words.wrapping_mul(8));
        self.end = end.wrapping_sub(self.order(Order::Stride));
        (frame >= first && frame < self.end).then_some(frame)
    }

    /// The state of this thread, if it is the one that runs scripts: a word of the whole process leads to it (2.7), and
    /// its own thread has the thread pointer. The one of the last time is tried first.
    fn state_of_process(&mut self, row: &Row) -> Option<u64> {
        let (known, known_thread) = (row.field(row::PYTHON_STATE), row.field(row::PYTHON_PAGE));
        let runtime = self.order(Order::Runtime);
        // Once with what is known, once with what was just found.
        for _ in 0..2 {
            let (state, thread) = (known.get(), known_thread.get());
            if state != 0 {
                let thread_at = state.wrapping_add(self.order(Order::Threads));
                let pointer = thread.wrapping_add(self.order(Order::ThreadPointer));
                let is_there = self.far.load_four(runtime, thread_at, pointer, pointer).is_some();
                if is_there && self.far.first() == state && self.far.second() == thread {
                    return (self.far.third() == arch::thread_pointer()).then_some(state);
                }
            }
            let state = self.far.load_alone(runtime)?;
            let thread = self.far.load_alone(state.wrapping_add(self.order(Order::Threads)))?;
            known.set(state);
            known_thread.set(thread);
        }
        None
    }

    /// The state of this thread, which one of its variables leads to. Where that lies is known from the last time,
    /// and counts only if what leads there still does.
    fn state_of_ruby(&mut self, row: &Row) -> Option<u64> {
        if self.order(Order::ThreadPointer) != 0 {
            return self.state_of_process(row);
        }
        let leads = arch::thread_pointer().wrapping_add(VARIABLES_AT);
        let (known_all, known) = (row.field(row::PYTHON_PAGE), row.field(row::PYTHON_STATE));
        if known.get() != 0 {
            let (all, own) = (known_all.get(), known.get());
            let [own_at, variable] = [(all, Order::Variables), (own, Order::Variable)]
                .map(|(at, order)| at.wrapping_add(self.order(order)));
            let is_there = self.far.load_four(leads, own_at, variable, variable).is_some();
            if is_there && self.far.first() == all && self.far.second() == own {
                return Some(self.far.third());
            }
        }
        known.set(0);
        let all = self.far.load_alone(leads)?;
        let own = self.far.load_alone(all.wrapping_add(self.order(Order::Variables)))?;
        let state = self.far.load_alone(own.wrapping_add(self.order(Order::Variable)))?;
        known_all.set(all);
        known.set(own);
        Some(state)
    }

    /// A look at a frame, together with those it was called from.
    #[inline(never)]
    pub(super) fn see_ruby(&mut self, frame: u64) -> Option<Seen> {
        self.far.begin_again();
        let number = match self.in_batch(frame) {
            Some(number) => number,
            None => {
                self.read_batch(frame);
                match self.in_batch(frame) {
                    Some(number) => number,
                    None => return self.see_ruby_alone(frame),
                }
            }
        };
        let (code, at) = (self.load(frame, Order::Code)?, self.load(frame, Order::Instruction)?);
        let flags = self.far.gathered(number * LEADS);
        let body = if code == 0 { 0 } else { self.far.gathered(number * LEADS + 1) };
        let (mark, previous) = (flags & self.order(Order::MarkMask), self.behind(frame));
        if flags & self.order(Order::Foreign) != 0 || body == 0 {
            return Some(Seen { mark, word: 0, previous });
        }
        let [first, extent, name, file] =
            [Order::Instructions, Order::Identity, Order::Name, Order::File].map(|order| {
                self.far
                    .gathered(KNOWN_AT + number * KNOWN + self.order(order) as usize / 8 % KNOWN)
            });
        Some(self.seen_ruby((mark, previous), (body, at), [first, extent, name, file]))
    }

    /// Which one of those read together a frame is. Without a division: the processor could refuse one.
    fn in_batch(&self, frame: u64) -> Option<usize> {
        let stride = self.order(Order::Stride);
        let (mut number, mut own) = (0, self.batch);
        while number < self.batched {
            if own == frame {
                return Some(number);
            }
            (number, own) = (number + 1, own.wrapping_add(stride));
        }
        None
    }

    /// Reads frames from this one on: as many as are there.
    fn read_batch(&mut self, frame: u64) {
        (self.batch, self.batched) = (frame, 0);
        let mut wanted = 0;
        let mut next = frame;
        while wanted < BATCH && next != 0 {
            let flags_at = self.load(next, Order::Mark);
            let (Some(flags_at), Some(code)) = (flags_at, self.load(next, Order::Code)) else {
                break;
            };
            let body_at = code.wrapping_add(self.order(Order::Body));
            self.far.want(LEADS * wanted, flags_at, 8);
            self.far.want(LEADS * wanted + 1, if code == 0 { flags_at } else { body_at }, 8);
            (wanted, next) = (wanted + 1, self.behind(next));
        }
        let lead = (LEADS * 8) as u64;
        let known = (KNOWN * 8) as u64;
        if wanted == 0 || self.order(Order::Identity) + 8 > known {
            return;
        }
        let leading = (self.far.gather(0, LEADS * wanted, lead * wanted as u64) / lead) as usize;
        for number in 0..leading {
            let (flags, body) =
                (self.far.gathered(number * LEADS), self.far.gathered(number * LEADS + 1));
            let code = frame.wrapping_add(number as u64 * self.order(Order::Stride));
            let is_script = flags & self.order(Order::Foreign) == 0
                && self.load(code, Order::Code).is_some_and(|code| code != 0);
            // What is no script's is read where something is, and not looked at.
            let harmless = self.far.gathered_at(KNOWN_AT);
            self.far.want(number, if is_script && body != 0 { body } else { harmless }, known);
        }
        if leading != 0 {
            let copied = self.far.gather(KNOWN_AT, leading, known * leading as u64);
            self.batched = (copied / known) as usize;
        }
    }

    /// The frame behind this one, or 0.
    fn behind(&self, frame: u64) -> u64 {
        let next = frame.wrapping_add(self.order(Order::Stride));
        if next < self.end && next > frame { next } else { 0 }
    }

    /// The same of one frame, where those around it make no sense.
    fn see_ruby_alone(&mut self, frame: u64) -> Option<Seen> {
        let flags_at = self.load(frame, Order::Mark)?;
        let code = self.load(frame, Order::Code)?;
        let at = self.load(frame, Order::Instruction)?;
        let previous = self.behind(frame);
        let body_at = code.wrapping_add(self.order(Order::Body));
        // The code of a function in C is anything.
        let (flags, body) = match self.far.load_four(flags_at, body_at, flags_at, body_at) {
            Some(()) => (self.far.first(), self.far.second()),
            None => (self.far.load_alone(flags_at)?, 0),
        };
        let mark = flags & self.order(Order::MarkMask);
        let is_foreign = flags & self.order(Order::Foreign) != 0 || body == 0;
        if is_foreign {
            return Some(Seen { mark, word: 0, previous });
        }
        let [first, extent, name, file] =
            [Order::Instructions, Order::Identity, Order::Name, Order::File]
                .map(|order| body.wrapping_add(self.order(order)));
        self.far.load_four(first, extent, name, file)?;
        let known = [self.far.first(), self.far.second(), self.far.third(), self.far.last()];
        Some(self.seen_ruby((mark, previous), (body, at), known))
    }

    /// Its instructions, where it ends, its name and its file tell code from other code at its place: the code of a
    /// file that was run is gone, and the next one has the same name and is often as long.
    fn seen_ruby(
        &mut self,
        (mark, previous): (u64, u64),
        (body, at): (u64, u64),
        [first, extent, name, file]: [u64; 4],
    ) -> Seen {
        let word = python::pack(body, at.wrapping_sub(first) >> 3);
        let place = stacks::hash_step(stacks::hash_step(extent, name), file);
        self.seen = stacks::hash_step(place, first);
        Seen { mark, word, previous }
    }

    /// The text of a code object: a file may be an array that begins with it.
    pub(super) fn text_of_ruby(&mut self, text: u64) -> Option<u64> {
        let head = self.far.load_alone(text)?;
        if head & KIND != ARRAY {
            return Some(text);
        }
        let values = if head & SHAPE != 0 {
            text.wrapping_add(VALUES)
        } else {
            self.far.load_alone(text.wrapping_add(VALUES_AT))?
        };
        self.far.load_alone(values)
    }

    /// Copies a text: its head, and behind that its bytes, where these are elsewhere or, from 3.3 on, may be.
    pub(super) fn copy_text_of_ruby(&mut self, to: Place, text: u64, most: u64) {
        if self.far.copy(to, text, HEAD_BYTES) != HEAD_BYTES {
            return;
        }
        let is_elsewhere = to.get() & SHAPE != 0;
        let behind = text.wrapping_add(BYTES_AT as u64);
        let bytes = if is_elsewhere { to.at(BYTES_AT).get() } else { behind };
        self.far.copy(to.at(HEAD_BYTES as usize), bytes, most - HEAD_BYTES);
    }

    /// The table of lines of a code object, and what leads to its rows: where both are, and how long. The
    /// second one is copied behind the first, from the next word on.
    pub(super) fn tables_of_ruby(&mut self, code: u64) -> [(u64, u64); 2] {
        let rows = self.load_of(code, Order::Lines).unwrap_or(0);
        let count = self.load_of(code, Order::Rows).unwrap_or(0) & HALF;
        let index = self.load_of(code, Order::Index).unwrap_or(0);
        // The length of the code is the second half of its first word.
        let length = self.far.load_alone(code).unwrap_or(0) >> 32;
        let blocks = length.saturating_sub(FIRST).div_ceil(BLOCK);
        let index_bytes = if count > 1 { FIRST_BYTES + blocks * BLOCK_BYTES } else { 0 };
        [(rows, count.wrapping_mul(self.order(Order::Length))), (index, index_bytes)]
    }
}
