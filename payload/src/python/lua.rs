//! Frames of Lua: each thread of it (a coroutine, [`super::lua_thread`]) has a list of calls, and each call says
//! which values it works on; the first of them is its function.

use heapattach_abi::{
    python::{self, FILE_AT, FILE_BYTES, LENGTH_AT, LINES_AT, OBJECT_BYTES, Order},
    stacks,
};

use super::{Python, Telling, lua_thread::KIND_AT};
use crate::shared_word::Place;

/// Calls that are looked at in one walk, of which a few are a script's.
const MOST_CALLS: usize = 1024;
/// Calls that are read together, words put aside for each, and where what is gathered lies: of each the function,
/// of that what it is and its code, and of the code three words, and an instruction.
const BATCH: usize = 7;
const ASIDE: usize = 4;
const KINDS: usize = 8;
const CODES: usize = 24;
const OF_CODE: usize = 4;
/// Instructions of 5.1 that call within the same loop.
const OPERATION: u64 = 0x3f;
const CALL: u64 = 28;
const TAIL_CALL: u64 = 29;
/// Where the bytes of a text begin.
const TEXT: u64 = 24;

/// A walk from call to call. Numbers that begin as 0 do not lie side by side: a vector register would be used for
/// two of them, and these are the target's.
#[repr(C)]
struct Walk {
    /// Calls that were read together, and how many of them were told.
    sound: usize,
    call: u64,
    at: usize,
    /// How many more may be looked at: they may lead in a circle, of which nothing is told.
    left: usize,
    /// Why there are no more, once that is known.
    end: u64,
    /// The frame that is told when it is known whether the loop was called for it.
    kept: u64,
    instruction: u64,
    /// What tells that one apart.
    kept_seen: u64,
}

/// There is more.
const GOES_ON: u64 = u64::MAX;

impl Python {
    /// Whether frames are Lua's.
    pub(super) fn is_lua(&self) -> bool {
        self.order(Order::Values) != 0
    }

    /// Tells so many frames from the innermost one on, as words; answers why there are no more.
    pub(super) fn each_of_lua(&mut self, innermost: u64, most: usize, telling: &mut Telling) -> u8 {
        let mut walk = Walk {
            sound: 0,
            call: innermost,
            at: 0,
            left: MOST_CALLS,
            end: GOES_ON,
            kept: 0,
            instruction: self.statement,
            kept_seen: 0,
        };
        for _ in 0..most {
            let word = self.next_of_lua(&mut walk);
            if word == 0 {
                return walk.end as u8;
            }
            telling.tell(self, word);
        }
        python::END_CUT
    }

    /// The next frame; 0 if there is none.
    #[inline(never)]
    fn next_of_lua(&mut self, walk: &mut Walk) -> u64 {
        let step = self.order(Order::Step);
        loop {
            if walk.at == walk.sound {
                if walk.end != GOES_ON {
                    return self.take_kept(walk, 0, true);
                }
                self.read_calls(walk);
                continue;
            }
            let number = walk.at;
            walk.at += 1;
            let aside = self.far.aside(number * ASIDE);
            let (instruction, is_fresh) = (aside.at(8).get(), aside.at(16).get());
            let code = aside.at(24).get();
            let of_code = CODES + number * OF_CODE;
            let [first, file, line] = [0, 1, 2].map(|word| self.far.gathered(of_code + word));
            // In 5.1 only what called says whether it did so within the loop.
            let called = self.far.gathered(of_code + 3) >> ((instruction.wrapping_sub(4) & 4) * 8);
            let is_same = called & OPERATION == CALL || called & OPERATION == TAIL_CALL;
            let is_outermost = step != 0 && (code == 0 || !is_same);
            let passed = (instruction.wrapping_sub(first) >> 2).wrapping_sub(1);
            let word = if code == 0 { 0 } else { python::pack(code, passed) };
            let next = if is_fresh != 0 { python::outermost(word) } else { word };
            let told = self.take_kept(walk, next, is_outermost);
            walk.kept_seen = stacks::hash_step(stacks::hash_step(first, file), line);
            if told != 0 {
                return told;
            }
        }
    }

    /// The frame that was kept, another one in its place.
    fn take_kept(&mut self, walk: &mut Walk, next: u64, is_outermost: bool) -> u64 {
        let word = walk.kept;
        self.told = walk.kept_seen;
        walk.kept = next;
        if is_outermost && word != 0 { python::outermost(word) } else { word }
    }

    /// Reads some calls.
    fn read_calls(&mut self, walk: &mut Walk) {
        self.far.begin_again();
        let noted = self.note_calls(walk);
        let sound = self.gather_pending_of_lua(noted);
        if sound != noted {
            walk.end = u64::from(python::END_CUT);
        }
        (walk.sound, walk.at) = (sound, 0);
    }

    /// Puts some calls aside; answers how many.
    fn note_calls(&mut self, walk: &mut Walk) -> usize {
        let mut noted = 0;
        while noted < BATCH {
            let step = self.order(Order::Step);
            let is_last = if step == 0 { walk.call == 0 } else { walk.call == self.end };
            let next = if is_last || walk.left == 0 { None } else { self.note_call(walk, noted) };
            walk.left = walk.left.saturating_sub(1);
            let Some(is_script) = next else {
                walk.end = u64::from(if is_last { python::END } else { python::END_CUT });
                break;
            };
            noted += usize::from(is_script);
        }
        noted
    }

    /// Puts a call aside, if it is a script's, which it answers; `None` if it makes no sense.
    fn note_call(&mut self, walk: &mut Walk, number: usize) -> Option<bool> {
        let call = walk.call;
        let mark = self.mark(call)? ^ self.order(Order::LeastMark);
        let step = self.order(Order::Step);
        walk.call =
            if step == 0 { self.load(call, Order::Previous)? } else { call.wrapping_sub(step) };
        if mark & self.order(Order::ScriptBits) != 0 {
            return Some(false);
        }
        let aside = self.far.aside(number * ASIDE);
        aside.set(self.load(call, Order::Code)?);
        let instruction = self.load(call, Order::Instruction)?;
        // The innermost one of 5.1 says so elsewhere.
        aside.at(8).set(if walk.instruction == 0 { instruction } else { walk.instruction });
        aside.at(16).set(mark & self.order(Order::FreshBits));
        walk.instruction = 0;
        Some(true)
    }

    /// Reads what is known of calls that were put aside; answers of how many that is there.
    fn gather_pending_of_lua(&mut self, pending: usize) -> usize {
        for number in 0..pending {
            self.far.want(number, self.far.aside(number * ASIDE).get(), 8);
        }
        let sound = self.gathered_of(0, pending, 1);
        let body = self.order(Order::Body);
        for number in 0..sound {
            let function = self.far.gathered(number);
            self.far.want(2 * number, function.wrapping_add(KIND_AT), 8);
            self.far.want(2 * number + 1, function.wrapping_add(body), 8);
        }
        let sound = self.gathered_of(KINDS, sound, 2);
        // What is no script's is read where something is, and not looked at.
        let harmless = self.far.gathered_at(0);
        let step = self.order(Order::Step);
        for number in 0..sound {
            let aside = self.far.aside(number * ASIDE);
            let is_foreign = step != 0 && self.far.gathered(KINDS + 2 * number) >> 16 & 0xff != 0;
            let code = if is_foreign { 0 } else { self.far.gathered(KINDS + 2 * number + 1) };
            aside.at(24).set(code);
            self.want_of_code(number, 0, (code, Order::Instructions), harmless);
            self.want_of_code(number, 1, (code, Order::File), harmless);
            self.want_of_code(number, 2, (code, Order::Identity), harmless);
            let calls = aside.at(8).get().wrapping_sub(4) & !7;
            let calls = if step == 0 || code == 0 { harmless } else { calls };
            self.far.want(OF_CODE * number + 3, calls, 8);
        }
        self.gathered_of(CODES, sound, OF_CODE)
    }

    fn want_of_code(
        &mut self,
        number: usize,
        word: usize,
        (code, order): (u64, Order),
        harmless: u64,
    ) {
        let place = code.wrapping_add(self.order(order) & !7);
        let place = if code == 0 { harmless } else { place };
        self.far.want(OF_CODE * number + word, place, 8);
    }

    /// Of how many of them so many words each were gathered.
    fn gathered_of(&mut self, to: usize, count: usize, words: usize) -> usize {
        self.gathered_in(to, count, words, words)
    }

    /// The same of so many places each, which have so many words together.
    #[inline(never)]
    pub(super) fn gathered_in(
        &mut self,
        to: usize,
        count: usize,
        places: usize,
        words: usize,
    ) -> usize {
        if count == 0 {
            return 0;
        }
        let bytes = (count * words * 8) as u64;
        let copied = self.far.gather(to, count * places, bytes) as usize / 8;
        // Without a division, which the processor could refuse, and which a compiler would make of a plain loop.
        let (mut whole, mut end) = (0, words);
        while whole < count && end <= copied {
            (whole, end) = (whole + 1, end + core::hint::black_box(words));
        }
        whole
    }

    /// What is copied with code: what tells its lines, and what is told of some instructions by itself.
    pub(super) fn tables_of_lua(&mut self, code: u64) -> [(u64, u64); 2] {
        let lines = self.load_of(code, Order::Lines).unwrap_or(0);
        let count = self.half(code, Order::Length);
        match self.order(Order::Rows) {
            0 => [(lines, count * 4), (0, 0)],
            _ => {
                let more = self.load_of(code, Order::Index).unwrap_or(0);
                [(lines, count), (more, self.half(code, Order::Rows) * 8)]
            }
        }
    }

    /// A number of 32 bits.
    #[inline(never)]
    fn half(&mut self, code: u64, order: Order) -> u64 {
        let at = code.wrapping_add(self.order(order));
        let word = self.far.load_alone(at & !7).unwrap_or(0);
        word >> ((at & 4) * 8) & 0xffff_ffff
    }

    /// Copies what is to be known of code: its own words, its file, and its tables.
    pub(super) fn copy_lua(&mut self, to: Place, code: u64, tables: [(u64, u64); 2]) {
        self.far.copy(to, code, OBJECT_BYTES as u64);
        if let Some(file) = self.load_of(code, Order::File) {
            self.far.copy(to.at(FILE_AT), file.wrapping_add(TEXT), FILE_BYTES as u64);
        }
        let copied = self.copy_tables(to.at(LINES_AT), tables[0], tables[1]);
        to.at(LENGTH_AT).set(copied);
    }
}
