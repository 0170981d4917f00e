//! Frames of JavaScript in V8: each is a frame of the native stack that has a frame pointer, and the words below that
//! say which function it is of.

use heapattach_abi::{
    python::{self, NOWHERE, Order},
    stacks,
};

use super::{Python, Telling};
use crate::{arch, cells::Cells, frame::Frame, row::Row, stack_store, unwind::Walk};

/// Frames that are read together, words put aside for each, and where what is gathered lies: of each the code that
/// functions share and its bytecode; then what code, bytecode and a table are in all of them; of each its script, and
/// what its table is.
const BATCH: usize = 5;
const ASIDE: usize = 4;
const SHARED: usize = 13;
const BYTECODE: usize = 8;
const KINDS: usize = BATCH * SHARED;
const ALL: usize = 3;
const SCRIPTS: usize = KINDS + ALL;
const SCRIPT: usize = 9;
/// Below a frame pointer: the context, or what the frame is of another kind; the function, the bytecode, and where in it.
const CONTEXT: u64 = 8;
const FUNCTION: u64 = 16;
const BYTECODE_BELOW: u64 = 32;
const OFFSET_BELOW: u64 = 40;
/// Words of a script from its second one on: its text, its name, two numbers, what came with it, a number, what its lines
/// are known by, and its own number. The table is told behind that.
const SCRIPT_WORDS: u64 = 8;
const TEXT: usize = 0;
const NAME: usize = 1;
const COLUMN: usize = 3;
const NUMBER: usize = 7;
const TABLE: usize = 8;
/// In bytecode the tables of positions and of handlers are beside each other: the sum of where they are.
const BOTH_TABLES: u64 = 56;
/// The lowest bits of what leads to an object; the address is one less.
const TAG: u64 = 3;
const OBJECT: u64 = 1;
const HALF: u32 = 32;

/// Where a walk begins.
pub(super) struct From<'a> {
    pub cells: &'a Cells,
    pub frame: &'a Frame,
    pub row: &'a Row,
}

/// Whether a word leads to an object.
pub(super) fn is_object(word: u64) -> bool {
    word & TAG == OBJECT
}

impl Python {
    /// Whether frames are V8's.
    pub(super) fn is_v8(&self) -> bool {
        self.order(Order::Kinds) != 0
    }

    /// Tells so many frames from the innermost one on, as words; answers why there are no more.
    #[inline(never)]
    pub(super) fn each_of_v8(&mut self, from: &From<'_>, most: usize, telling: &mut Telling) -> u8 {
        let walk = &mut Walk::new(from.cells, from.frame, from.row);
        let at = walk.arrived();
        let (mut lookup, mut stack, mut pointer) = (at.lookup, at.stack, at.frame);
        let (mut left, mut place, mut noted) = (stack_store::most_frames(from.cells), 0, 0);
        let mut told = most;
        loop {
            left -= 1;
            let is_last = left == 0 || walk.careful_step(lookup, stack, pointer, &mut ()).is_err();
            let at = walk.arrived();
            let is_framed = !is_last && at.stack == pointer.wrapping_add(16);
            if is_framed && walk.has_no_table(lookup) && self.note_of_v8(noted, pointer) {
                self.far.aside(noted * ASIDE + 1).set(place);
                noted += 1;
            }
            place += u64::from(!walk.is_own(lookup));
            (lookup, stack, pointer) = (at.lookup, at.stack, at.frame);
            if noted != BATCH && !is_last {
                continue;
            }
            let sound = self.read_of_v8(noted);
            for number in 0..sound {
                let word = self.word_of_v8(number);
                if word != 0 && told == 0 {
                    return python::END_CUT;
                }
                if word != 0 {
                    told -= 1;
                    telling.tell(self, word);
                }
            }
            if is_last || sound != noted {
                return if sound == noted { python::END } else { python::END_CUT };
            }
            noted = 0;
        }
    }

    /// Puts a frame aside, if it may be a script's.
    #[inline(never)]
    fn note_of_v8(&self, number: usize, pointer: u64) -> bool {
        let below = |distance: u64| self.far.peek(pointer.wrapping_sub(distance)).unwrap_or(0);
        let function = below(FUNCTION);
        if !is_object(below(CONTEXT)) || !is_object(function) {
            return false;
        }
        let (bytecode, offset) = (below(BYTECODE_BELOW), below(OFFSET_BELOW));
        let is_interpreted = is_object(bytecode) && offset << HALF == 0;
        let aside = self.far.aside(number * ASIDE);
        aside.set(function);
        aside.at(16).set(if is_interpreted { bytecode } else { 0 });
        aside.at(24).set(offset >> HALF);
        true
    }

    /// Reads what is known of frames that were put aside; answers of how many that is there.
    #[inline(never)]
    fn read_of_v8(&mut self, noted: usize) -> usize {
        self.far.begin_again();
        for number in 0..noted {
            let function = self.far.aside(number * ASIDE).get();
            self.want_of_v8(number, function, self.order(Order::Code), 8);
        }
        let sound = self.gathered_in(0, noted, 1, 1);
        for number in 0..sound {
            self.far.aside(number * ASIDE).set(self.far.gathered(number));
        }
        for number in 0..sound {
            let aside = self.far.aside(number * ASIDE);
            self.want_of_v8(2 * number, aside.get(), 0, 8 * BYTECODE as u64);
            let bytes = 8 * (SHARED - BYTECODE) as u64;
            self.want_of_v8(2 * number + 1, aside.at(16).get(), 0, bytes);
        }
        let sound = self.gathered_in(0, sound, 2, SHARED);
        if sound == 0 {
            return 0;
        }
        // Objects of a kind have one map: it is looked at once.
        let mut first = 0;
        while first + 1 < sound && self.far.aside(first * ASIDE + 2).get() == 0 {
            first += 1;
        }
        self.batch = first as u64;
        let handlers = BOTH_TABLES.wrapping_sub(self.order(Order::Lines));
        self.want_of_v8(0, self.shared_of_v8(0, 0), 8, 8);
        self.want_of_v8(1, self.bytecode_of_v8(first, 0), 8, 8);
        self.want_of_v8(2, self.bytecode_of_v8(first, handlers), 0, 8);
        for number in 0..sound {
            let table = self.bytecode_of_v8(number, self.order(Order::Lines));
            self.want_of_v8(ALL + 2 * number, self.script_of_v8(number), 8, 8 * SCRIPT_WORDS);
            self.want_of_v8(ALL + 2 * number + 1, table, 0, 8);
        }
        let bytes = 8 * (ALL + sound * SCRIPT) as u64;
        // All of them are there, or none counts.
        if self.far.gather(KINDS, ALL + 2 * sound, bytes) == bytes { sound } else { 0 }
    }

    /// Notes so many bytes of an object from this word on; what is none is read where something is, and not looked at.
    #[inline(never)]
    fn want_of_v8(&mut self, number: usize, object: u64, at: u64, bytes: u64) {
        let place = object.wrapping_sub(OBJECT).wrapping_add(at);
        let place = if is_object(object) { place } else { self.far.gathered_at(0) };
        self.far.want(number, place, bytes);
    }

    /// A word of what functions share.
    #[inline(never)]
    pub(super) fn shared_of_v8(&self, number: usize, at: u64) -> u64 {
        self.far.gathered(number * SHARED + (at as usize / 8).min(BYTECODE - 1))
    }

    fn script_of_v8(&self, number: usize) -> u64 {
        self.shared_of_v8(number, self.order(Order::File))
    }

    /// A word of the bytecode of a frame; 0 if it has none.
    #[inline(never)]
    fn bytecode_of_v8(&self, number: usize, at: u64) -> u64 {
        if self.far.aside(number * ASIDE + 2).get() == 0 {
            return 0;
        }
        let at = (at as usize / 8).min(SHARED - BYTECODE - 1);
        self.far.gathered(number * SHARED + BYTECODE + at)
    }

    /// A word of the script of the frame that is told, or what its table is.
    #[inline(never)]
    fn of_script(&self, word: usize) -> u64 {
        self.far.gathered(SCRIPTS + self.batched * SCRIPT + word)
    }

    /// Of the script of the frame that is told: its text, or its name.
    pub(super) fn text_of_script(&self, word: usize) -> u64 {
        self.of_script(TEXT + word)
    }

    /// The table of positions of the frame that is told; 0 if it has none.
    #[inline(never)]
    pub(super) fn positions_of_v8(&self) -> u64 {
        // It is what the table of handlers is, which all bytecode has.
        let is_one = self.is_interpreted() && self.of_script(TABLE) == self.far.gathered(KINDS + 2);
        if is_one { self.bytecode_of_v8(self.batched, self.order(Order::Lines)) } else { 0 }
    }

    /// Whether the frame that is told has bytecode.
    #[inline(never)]
    fn is_interpreted(&self) -> bool {
        let map = self.bytecode_of_v8(self.batched, 0);
        let is_one = self.is_kind(self.far.gathered(KINDS + 1), 2);
        map != 0 && is_one && map == self.bytecode_of_v8(self.batch as usize, 0)
    }

    /// Whether the second word of a map says this of what has it.
    #[inline(never)]
    fn is_kind(&self, word: u64, which: u32) -> bool {
        (word >> HALF ^ self.order(Order::Kinds) >> (16 * which)) & 0xffff == 0
    }

    /// A frame as a word; 0 if it runs no script.
    #[inline(never)]
    fn word_of_v8(&mut self, number: usize) -> u64 {
        self.batched = number;
        let id = self.of_script(NUMBER);
        let is_script = (id | self.of_script(COLUMN)) << HALF == 0
            && is_object(self.of_script(TEXT))
            && is_object(self.of_script(NAME))
            && self.is_kind(self.far.gathered(KINDS), 0)
            && self.shared_of_v8(number, 0) == self.shared_of_v8(0, 0);
        if !is_script {
            return 0;
        }
        let is_interpreted = self.is_interpreted();
        let has_table = self.positions_of_v8() != 0;
        // A function has a number in its script, and a script one in its isolate.
        let flags = self.order(Order::Identity) & !7;
        let own = self.shared_of_v8(number, flags) >> HALF;
        let (id, aside) = (id >> HALF, self.far.aside(number * ASIDE));
        let code = (id & 0xf_ffff) << 24 | (own & 0x7f_ffff) << 1 | u64::from(has_table);
        let first = self.order(Order::Bytes) - OBJECT;
        let offset = aside.at(24).get().wrapping_sub(first);
        let place = stacks::hash_step(arch::thread_pointer(), self.script_of_v8(number));
        self.told = stacks::hash_step(place ^ self.of_script(NAME), id << HALF | own);
        self.place = aside.at(8).get() + 1;
        python::pack(code << 3, if is_interpreted { offset } else { NOWHERE })
    }
}
