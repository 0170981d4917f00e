//! Who asked, where that was code of Python, PHP, Ruby, Perl, Lua (and LuaJIT), Java or JavaScript: the frames of the interpreter that this thread is in.
//!
//! The thread is in this call, so what its state leads to is whole; but nothing of it is believed. It is
//! read as far memory ([`crate::probed_read`]), by offsets that the injector found out, and only so far.

mod copies;
mod cpython;
mod java;
mod lua;
mod lua_thread;
mod luajit;
mod perl;
mod php;
mod ruby;
mod v8;
mod v8_text;

use core::sync::atomic::Ordering::Acquire;

use heapattach_abi::{
    java::NATIVE,
    python::{self, MOST_FRAMES, ORDERS_AT, Order},
    row, stacks,
};

use ruby::Seen;

use crate::{
    cells::Cells, frame::Frame, probed_read::Far, readable, row::Row, shared_word::Place,
    stack_store,
};

/// Threads that are looked at for this one.
const THREADS: usize = 4096;
/// Records of a thread that is in no Python between two looks, at most.
const LONGEST_WAIT: u64 = 1 << 6;
/// The same of Lua, where looking takes more, for a stack in which there was none.
const LONGER_WAIT: u64 = 1 << 12;

/// The number of the stack that this native one is with its Python frames, if it has any.
#[inline(always)]
pub(crate) fn combined(cells: &Cells, frame: &Frame, row: &Row, native: u32) -> u32 {
    // Pairs with the injector, which writes this word after all others.
    let runtime = cells.control().at(ORDERS_AT).word().load(Acquire);
    if runtime == 0 { native } else { look(cells, frame, row, native) }
}

#[cold]
#[inline(never)]
fn look(cells: &Cells, frame: &Frame, row: &Row, native: u32) -> u32 {
    if native == 0 || row.is_shared() {
        return native;
    }
    let is_lua = cells.control().at(ORDERS_AT + Order::Values as usize).get() != 0;
    if is_lua && is_seldom(cells, row, native) {
        return native;
    }
    let Some(copy) = readable::claim(cells.region()) else { return native };
    let far = Far::new(copy, cells, row, frame.stack_pointer());
    let orders = cells.control().at(ORDERS_AT);
    // Not constants, which vector registers would do.
    let none = orders.address();
    let mut python = Python {
        orders,
        far,
        end: none,
        seen: none,
        told: none,
        batch: none,
        batched: 0,
        statement: none,
        function: none,
        place: none,
    };
    python.place = 0;
    let from = &v8::From { cells, frame, row };
    let is_java = python.is_java();
    let innermost =
        if is_java { python.innermost_of_java(row) } else { python.innermost(row, frame) };
    let Some(innermost) = innermost else {
        if is_lua {
            stack_store::note_no_script(cells.region(), native);
        }
        return native;
    };
    let most = stack_store::most_frames(cells).min(MOST_FRAMES);
    let hash = stacks::hash_step(stacks::HASH_START, u64::from(native));
    let tells_apart = python.order(Order::TellsApart) != 0;
    let region = cells.region();
    let mut telling =
        Telling { hash, tells_apart, frames: 1, words: region, region, is_stored: false };
    let each = |python: &mut Python, most, telling: &mut Telling| match is_java {
        true => python.each_of_java((cells, row), innermost, most, telling),
        false => python.each(from, innermost, most, telling),
    };
    let end = each(&mut python, most, &mut telling);
    let frames = telling.frames;
    if frames == 1 {
        return native;
    }
    let hash = stacks::hash_words(telling.hash, frames, end);
    stack_store::number(cells.region(), hash, |region, entry| {
        stack_store::store_words(region, entry, frames, end, |words| {
            words.set(u64::from(native));
            (telling.words, telling.is_stored) = (words, true);
            let _ = each(&mut python, frames - 1, &mut telling);
        });
    })
}

/// What is done with frames that are told: they are counted and told apart, or stored.
struct Telling {
    hash: u64,
    tells_apart: bool,
    frames: usize,
    /// Where the last one was stored, and the region that this is in.
    words: Place,
    region: Place,
    is_stored: bool,
}

impl Telling {
    /// One frame.
    #[inline(never)]
    fn tell(&mut self, python: &mut Python, word: u64) {
        self.tell_at_once(python, word);
    }

    /// The same without a call.
    #[inline(always)]
    fn tell_at_once(&mut self, python: &mut Python, word: u64) {
        if self.is_stored {
            return self.store(python, word);
        }
        let identity = if self.tells_apart { python.identity(word).unwrap_or(0) } else { 0 };
        self.hash = stacks::hash_step(stacks::hash_step(self.hash, word), identity);
        self.frames += 1;
    }

    #[inline(never)]
    fn store(&mut self, python: &mut Python, word: u64) {
        self.words = self.words.at(8);
        python.far.begin_again();
        let copied = python.copied(self.region, word);
        self.words.set(python::stored(word, copied) | python.place << python::PLACE_SHIFT);
    }

    /// A native frame between frames of Java.
    fn tell_native(&mut self, code: u64) {
        if !self.is_stored {
            self.hash = stacks::hash_step(self.hash, code);
            self.frames += 1;
            return;
        }
        self.words = self.words.at(8);
        self.words.set(NATIVE | code);
    }
}

/// A look at the interpreter.
struct Python {
    orders: Place,
    far: Far,
    /// Where frames that lie one behind the other end.
    end: u64,
    /// What tells the code of the frame that was just seen from other code at its place, where a look at a
    /// frame finds that out.
    seen: u64,
    /// The same of the frame that is being told.
    told: u64,
    /// Ruby's: the first of the frames that were read together; and how many these are (PHP's, too).
    batch: u64,
    batched: usize,
    /// Perl's: the statement that runs; where Lua's innermost call is, if the thread says so (5.1).
    statement: u64,
    /// Perl's: the function of the frame that is being told.
    function: u64,
    /// V8's and LuaJIT's: one more than which of the native frames the one is that is being told; else 0.
    place: u64,
}

impl Python {
    fn order(&self, order: Order) -> u64 {
        self.orders.at(order as usize).get()
    }

    /// The address of the innermost frame of this thread, if it is in Python.
    fn innermost(&mut self, row: &Row, hook: &Frame) -> Option<u64> {
        if self.is_v8() || self.is_luajit() {
            // The walk itself tells.
            return Some(1);
        }
        if self.is_lua() {
            return self.innermost_of_lua(row, hook);
        }
        if self.is_ruby() {
            return self.innermost_of_ruby(row);
        }
        if self.is_perl() {
            return self.innermost_of_perl(row);
        }
        if self.has_one_thread() {
            let said = self.order(Order::Runtime).wrapping_add(self.order(Order::Current));
            return self.far.load_alone(said).filter(|&frame| frame != 0);
        }
        self.innermost_of_cpython(row)
    }

    /// Whether the interpreter has one thread, whose innermost frame is said in its global state. Of
    /// other threads the reader knows by their native frames that they run no script.
    fn has_one_thread(&self) -> bool {
        self.order(Order::Line) != 0
    }

    /// Tells so many frames from the innermost one on, as words; answers why there are no more.
    fn each(
        &mut self,
        from: &v8::From<'_>,
        innermost: u64,
        most: usize,
        telling: &mut Telling,
    ) -> u8 {
        if self.is_v8() {
            return self.each_of_v8(from, most, telling);
        }
        if self.is_luajit() {
            return self.each_of_luajit(from, most, telling);
        }
        if self.is_lua() {
            return self.each_of_lua(innermost, most, telling);
        }
        if self.is_perl() {
            return self.each_of_perl(innermost, most, telling);
        }
        if self.is_ruby() || self.has_one_thread() {
            return self.each_by(innermost, most, telling, Self::see);
        }
        self.each_by(innermost, most, telling, Self::see_cpython)
    }

    /// The same by looks at frames.
    #[inline(always)]
    fn each_by(
        &mut self,
        innermost: u64,
        most: usize,
        telling: &mut Telling,
        see: impl Fn(&mut Self, u64) -> Option<Seen>,
    ) -> u8 {
        let least_mark = self.order(Order::LeastMark);
        // The last one is told when it is known whether it is the outermost of its loop.
        let (mut held, mut told, mut frame) = (0, 0, innermost);
        let mut held_seen = self.seen;
        for _ in 0..2 * MOST_FRAMES {
            if frame == 0 || told == most {
                break;
            }
            let Some(Seen { mark, word, previous }) = see(self, frame) else { break };
            frame = previous;
            let is_mark = least_mark != 0 && mark >= least_mark;
            if held != 0 {
                self.told = held_seen;
                telling.tell_at_once(self, if is_mark { python::outermost(held) } else { held });
                held = 0;
                told += 1;
            }
            if !is_mark && word != 0 {
                let is_outermost = least_mark == 0 && mark != 0;
                held = if is_outermost { python::outermost(word) } else { word };
                held_seen = self.seen;
            }
        }
        if held != 0 && told < most {
            self.told = held_seen;
            telling.tell(self, held);
            held = 0;
        }
        if frame == 0 && held == 0 { python::END } else { python::END_CUT }
    }

    /// What a frame is.
    #[inline(never)]
    fn mark(&mut self, frame: u64) -> Option<u64> {
        let at = frame.wrapping_add(self.order(Order::Mark));
        Some(self.far.load(at & !7)? >> ((at & 7) * 8) & self.order(Order::MarkMask))
    }

    #[inline(never)]
    fn load(&mut self, at: u64, order: Order) -> Option<u64> {
        self.far.load(at.wrapping_add(self.order(order)))
    }

    /// A look at a frame of Ruby or PHP.
    fn see(&mut self, frame: u64) -> Option<Seen> {
        if self.is_ruby() { self.see_ruby(frame) } else { self.see_php(frame) }
    }
}

/// Whether Lua is not to be looked for in a stack this time.
#[inline(never)]
fn is_seldom(cells: &Cells, row: &Row, native: u32) -> bool {
    if stack_store::has_no_script(cells.region(), native) {
        return !is_due(row, LONGER_WAIT);
    }
    // Of a stack that is cut it is not known: where the thread ran none so far it is looked for now and then.
    let is_known = row.field(row::PYTHON_STATE).get() != 0;
    !is_known && !stack_store::is_whole(cells.region(), native) && !is_due(row, LONGEST_WAIT)
}

/// Whether a thread without Python is to be looked for again: ever more seldom.
#[inline(never)]
fn is_due(row: &Row, longest: u64) -> bool {
    let wait = row.field(row::PYTHON_WAIT);
    let (left, last) = (wait.get() & 0xffff_ffff, wait.get() >> 32);
    if left != 0 {
        wait.set(last << 32 | (left - 1));
        return false;
    }
    let next = (2 * last + 1).min(longest);
    wait.set(next << 32 | next);
    true
}
