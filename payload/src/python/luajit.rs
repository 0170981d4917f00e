//! Frames of LuaJIT's interpreter: a frame of its machine on the native stack says which thread of Lua (a coroutine) it
//! runs. The frames of that lie among its values, and each says where its caller goes on.

use heapattach_abi::{
    luajit::{
        BASE, BYTECODE, CODE_BYTES, FILE, GOES_ON, IS_CODE, IS_FUNCTION, IS_THREAD, KIND, LINES,
        LINES_OF_IT, MACHINE, OBJECT_BITS, RESULTS, STACK, TEXT, THREAD, line_shift,
    },
    python::{self, FILE_AT, FILE_BYTES, LENGTH_AT, LINES_AT, NOWHERE, OBJECT_BYTES, Order},
    stacks,
};

use super::{Python, Telling, v8::From};
use crate::{shared_word::Place, stack_store, unwind::Walk};

/// Frames that are looked at for a few that are a script's.
const MOST_FRAMES: u64 = 1024;
/// What the lowest bits of a frame's second word say: the address at which its caller goes on, whose call tells how
/// far below its frame lies; else that distance, and how it was called.
const HOW: u64 = 7;
const KIND_OF_CALL: u64 = 3;
const BY_SCRIPT: u64 = 0;
const BY_MACHINE: u64 = 1;
const BY_OPERATION: u64 = 2;
const AGAIN: u64 = 3;
/// What goes on behind an operation where C called: a function of the machine's own.
const FROM_C: u64 = 1;
/// The lowest bits of what leads to a frame of the machine say more of it.
const MACHINE_BITS: u64 = 3;
const HALF: u32 = 32;

/// Where a walk is among the values of a thread. Numbers that begin as 0 do not lie side by side: a vector register
/// would be used for two of them, and these are the target's.
#[repr(C)]
struct Values {
    left: u64,
    thread: u64,
    frames: u64,
    begin: u64,
    told: usize,
    frame: u64,
    /// Where the function of the frame goes on; 0 if that is not known.
    goes_on: u64,
    /// Not 0: the frame that was just seen is a second one of the same call.
    is_again: u64,
}

impl Python {
    /// Whether frames are LuaJIT's.
    pub(super) fn is_luajit(&self) -> bool {
        self.order(Order::MachineBytes) != 0
    }

    /// Tells so many frames from the innermost one on, as words; answers why there are no more.
    #[inline(never)]
    pub(super) fn each_of_luajit(
        &mut self,
        from: &From<'_>,
        most: usize,
        telling: &mut Telling,
    ) -> u8 {
        let walk = &mut Walk::new(from.cells, from.frame, from.row);
        // Not constants, which vector registers would do.
        let none = self.orders.address();
        let values = &mut Values {
            left: MOST_FRAMES,
            thread: none,
            frames: stack_store::most_frames(from.cells) as u64,
            begin: none,
            told: most,
            frame: none,
            goes_on: none,
            is_again: 0,
        };
        let at = walk.arrived();
        let (mut lookup, mut stack, mut pointer) = (at.lookup, at.stack, at.frame);
        let mut place = 0;
        loop {
            self.place = place + 1;
            let within = lookup.wrapping_sub(self.order(Order::Machine));
            let is_machine = within < self.order(Order::MachineBytes);
            if is_machine && self.frames_of_machine(stack, values, telling).is_none() {
                return python::END_CUT;
            }
            let is_own = walk.is_own(lookup);
            values.frames -= 1;
            // Code that was compiled: the values are not those of the functions that run.
            if values.frames == 0 || !is_own && walk.has_no_table(lookup) {
                return python::END_CUT;
            }
            place += u64::from(!is_own);
            if walk.careful_step(lookup, stack, pointer, &mut ()).is_err() {
                return python::END;
            }
            let at = walk.arrived();
            (lookup, stack, pointer) = (at.lookup, at.stack, at.frame);
        }
    }

    /// Tells the frames that a frame of the machine runs; `None` if there may be others.
    #[inline(never)]
    fn frames_of_machine(
        &mut self,
        machine: u64,
        values: &mut Values,
        telling: &mut Telling,
    ) -> Option<()> {
        let [results, thread, goes_on] =
            [RESULTS, THREAD, GOES_ON].map(|at| self.far.peek(machine.wrapping_add(at)));
        let (results, thread) = (results?, thread?);
        if thread != values.thread {
            self.enter_luajit(thread, machine, values)?;
        }
        values.goes_on = goes_on?;
        // For a function of C's alone: nothing of it lies above the values that there were.
        let distance = (results as u32 as i32).wrapping_neg();
        if distance > 0 && values.frame < values.begin.wrapping_add(distance as u64) {
            return Some(());
        }
        while values.frame > values.begin.wrapping_add(8) {
            values.left = values.left.checked_sub(1)?;
            self.far.begin_again();
            if self.pass_of_luajit(values, telling)? {
                break;
            }
        }
        Some(())
    }

    /// The values of a thread, if it is one that this frame of the machine runs.
    #[inline(never)]
    fn enter_luajit(&mut self, thread: u64, machine: u64, values: &mut Values) -> Option<()> {
        let at = |offset| thread.wrapping_add(offset);
        self.far.begin_again();
        self.far.load_four(at(KIND), at(BASE), at(STACK), at(MACHINE))?;
        let is_one = self.far.first() >> 8 & 0xff == IS_THREAD;
        if !is_one || self.far.last() & !MACHINE_BITS != machine {
            return None;
        }
        (values.thread, values.begin) = (thread, self.far.third());
        values.frame = self.far.second().wrapping_sub(8);
        values.is_again = 0;
        Some(())
    }

    /// Tells a frame, and goes on to its caller's; answers whether the machine was called for it.
    #[inline(never)]
    fn pass_of_luajit(&mut self, values: &mut Values, telling: &mut Telling) -> Option<bool> {
        let frame = values.frame;
        let function = self.far.load(frame.wrapping_sub(8))? & OBJECT_BITS;
        let how = self.far.load(frame)?;
        let is_by_script = how & KIND_OF_CALL == BY_SCRIPT;
        let call = if is_by_script { how.wrapping_sub(4) } else { frame };
        let at = |offset| function.wrapping_add(offset);
        self.far.load_four(at(KIND), at(BYTECODE), call & !7, frame)?;
        let (kind, bytecode) = (self.far.first(), self.far.second());
        let call = self.far.third() >> ((call & 4) * 8);
        if kind >> 8 & 0xffff == IS_FUNCTION && values.is_again == 0 {
            let word = self.word_of_luajit(bytecode, values.goes_on)?;
            values.told = values.told.checked_sub(1)?;
            telling.tell(self, word);
        }
        let kind = how & HOW;
        values.is_again = u64::from(kind == AGAIN);
        // The frame lies two words and as many values as the call says above its caller's.
        let distance = if is_by_script { 16 + 8 * (call >> 8 & 0xff) } else { how & !HOW };
        let is_operation = kind == BY_OPERATION;
        values.goes_on = match kind {
            _ if is_by_script => how,
            BY_OPERATION => self.far.load(frame.wrapping_sub(16))?,
            _ => 0,
        };
        let next = frame.wrapping_sub(distance);
        if next >= frame {
            return None;
        }
        values.frame = next;
        let is_from_c = is_operation && self.far.load(frame.wrapping_sub(24))? == FROM_C;
        Some(how & KIND_OF_CALL == BY_MACHINE || is_from_c)
    }

    /// A frame as a word, whose code this is, and goes on there.
    #[inline(never)]
    fn word_of_luajit(&mut self, bytecode: u64, goes_on: u64) -> Option<u64> {
        let code = bytecode.wrapping_sub(CODE_BYTES);
        let at = |offset| code.wrapping_add(offset);
        self.far.load_four(at(KIND), at(FILE), at(LINES_OF_IT), at(LINES))?;
        let kind = self.far.first();
        if kind >> 8 & 0xff != IS_CODE {
            return None;
        }
        let (file, lines) = (self.far.second(), self.far.third());
        let seen = stacks::hash_step(stacks::hash_step(file, lines), self.far.last());
        self.told = stacks::hash_step(seen, kind >> HALF);
        let passed = (goes_on.wrapping_sub(bytecode) >> 2).wrapping_sub(1);
        Some(python::pack(code, if passed < kind >> HALF { passed } else { NOWHERE }))
    }

    /// What is copied with code: the lines of its instructions but the first.
    pub(super) fn tables_of_luajit(&mut self, code: u64) -> [(u64, u64); 2] {
        let at = |offset| code.wrapping_add(offset);
        let is_there = self.far.load_four(at(KIND), at(LINES_OF_IT), at(LINES), at(KIND)).is_some();
        let (instructions, lines) = (self.far.first() >> HALF, self.far.second() >> HALF);
        let length = instructions.wrapping_sub(1) << line_shift(lines as u32);
        let lines = self.far.third();
        let is_one = is_there && lines != 0 && instructions != 0;
        // Nothing but these: two words of nothing would be done by a vector register.
        [(lines, if is_one { length } else { 0 }), (lines, 0)]
    }

    /// Copies what is to be known of code: its own words, its file, and its lines.
    pub(super) fn copy_luajit(&mut self, to: Place, code: u64, lines: (u64, u64)) {
        self.far.copy(to, code, OBJECT_BYTES as u64);
        if let Some(file) = self.far.load_alone(code.wrapping_add(FILE)) {
            self.far.copy(to.at(FILE_AT), file.wrapping_add(TEXT), FILE_BYTES as u64);
        }
        let copied = self.copy_tables(to.at(LINES_AT), lines, (0, 0));
        to.at(LENGTH_AT).set(copied);
    }
}
