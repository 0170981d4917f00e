//! Frames of Java. A thread that left Java for code of a library has an anchor that says where; from there frames
//! lead on to where Java was entered, and what is kept there leads to the anchor of before. The native frames
//! between are walked by the tables of their modules.

use heapattach_abi::{
    java::{self, HEAP_WORDS, HEAPS, JAVA_ORDERS_AT, JavaOrder},
    python, row,
    stacks::End,
};

use super::{LONGEST_WAIT, Python, THREADS, Telling, is_due};
use crate::{
    arch,
    cells::Cells,
    row::Row,
    shared_word::Place,
    unwind::{Position, Walk},
};

/// From the frame pointer of a frame of the interpreter: where the stack of the caller ended, the method, and
/// the instruction; of one that entered Java: what leads to the anchor of before.
const SENDER: u64 = 8;
const METHOD: u64 = 24;
const INSTRUCTION: u64 = 64;
const WRAPPER: u64 = 48;
/// In an anchor, behind the stack pointer.
const CODE: u64 = 8;
const FRAME: u64 = 16;
/// What leads to the beginning of a piece of code, in one step at most so many segments back.
const UNUSED: u64 = 0xff;
const STEPS: usize = 64;

/// A frame of Java's: its stack pointer, its frame pointer, and where it goes on. And how many frames may be told yet.
struct At {
    stack: u64,
    frame: u64,
    code: u64,
    left: usize,
}

impl Python {
    /// Whether frames are Java's.
    pub(super) fn is_java(&self) -> bool {
        self.of_java(JavaOrder::Anchor) != 0
    }

    fn of_java(&self, order: JavaOrder) -> u64 {
        self.java_word(order as usize)
    }

    fn java_word(&self, number: usize) -> u64 {
        let behind = JAVA_ORDERS_AT - python::ORDERS_AT + number * 8;
        self.orders.at(behind).get()
    }

    /// The anchor of this thread, if it left Java.
    #[inline(never)]
    pub(super) fn innermost_of_java(&mut self, row: &Row) -> Option<u64> {
        let [known, known_system, known_list] =
            [row::PYTHON_STATE, row::PYTHON_PAGE, row::PYTHON_WAIT].map(|at| row.field(at));
        let is_known = known.get() != 0 && self.has_left(known.get(), known_system.get()).is_some();
        if !is_known || self.far.third() == 0 {
            let list = self.far.load_alone(self.order(python::Order::Runtime))?;
            // It may be what was left of a thread that ended; if not, this one is in no Java. Where none is known,
            // the list of the last look is in place of what the system knows.
            let is_same = match is_known {
                true => known_list.get() == list,
                false => {
                    known.get() == 0 && known_system.get() == list && !is_due(row, LONGEST_WAIT)
                }
            };
            if is_same {
                return None;
            }
            if known.get() != 0 {
                known.set(0);
                known_list.set(0);
            }
            known_system.set(list);
            let thread = self.find_java(list, known_system)?;
            known.set(thread);
            known_list.set(list);
            self.has_left(thread, known_system.get())?;
        }
        let has_left = self.far.third() != 0;
        has_left.then(|| known.get().wrapping_add(self.of_java(JavaOrder::Anchor)))
    }

    /// Looks at a thread and what the system knows of it; `None` if that is not this thread.
    #[inline(never)]
    fn has_left(&mut self, thread: u64, system: u64) -> Option<()> {
        let own = system.wrapping_add(self.of_java(JavaOrder::ThreadPointer));
        let leads = thread.wrapping_add(self.of_java(JavaOrder::System));
        let anchor = thread.wrapping_add(self.of_java(JavaOrder::Anchor));
        self.far.load_four(leads, own, anchor, anchor)?;
        let is_own = self.far.first() == system && self.far.second() == arch::thread_pointer();
        is_own.then_some(())
    }

    /// Looks for this thread in the list of all.
    #[inline(never)]
    fn find_java(&mut self, list: u64, known_system: Place) -> Option<u64> {
        // Others end meanwhile.
        self.far.trust(false);
        let found = self.find_among_all_of_java(list, known_system);
        self.far.trust(true);
        found
    }

    #[inline(never)]
    fn find_among_all_of_java(&mut self, list: u64, known_system: Place) -> Option<u64> {
        let length_at = list.wrapping_add(self.of_java(JavaOrder::ListLength));
        let length = half_of(self.far.load_alone(length_at & !7)?, length_at);
        let mut at =
            self.far.load_alone(list.wrapping_add(self.of_java(JavaOrder::ListThreads)))?;
        let mut left = length.min(THREADS as u64);
        while left != 0 {
            left -= 1;
            self.far.begin_again();
            let thread = self.far.load(at)?;
            at = at.wrapping_add(8);
            let leads = thread.wrapping_add(self.of_java(JavaOrder::System));
            // A thread that begins or ends has none.
            let Some(system) = self.far.load_alone(leads).filter(|&system| system != 0) else {
                continue;
            };
            let own = system.wrapping_add(self.of_java(JavaOrder::ThreadPointer));
            let own = self.far.load_alone(own).unwrap_or(1);
            if own == arch::thread_pointer() {
                known_system.set(system);
                return Some(thread);
            }
            // Who began it has still to say so: it may be this one, which looks again the next time.
            if own == 0 {
                known_system.set(0);
            }
        }
        None
    }

    /// Tells so many frames from an anchor on, as words; answers why there are no more.
    pub(super) fn each_of_java(
        &mut self,
        (cells, row): (&Cells, &Row),
        anchor: u64,
        most: usize,
        telling: &mut Telling,
    ) -> u8 {
        // Not constants, which vector registers would do.
        let mut at = At { stack: most as u64, frame: anchor, code: anchor, left: most };
        at.stack = 0;
        let (mut anchor, mut rounds) = (anchor, most);
        loop {
            // Where Java is entered again and again without a frame of its own, that is nonsense.
            if rounds == 0 || self.enter(&mut at, anchor).is_none() {
                return python::END_CUT;
            }
            rounds -= 1;
            if self.frames_of_java(&mut at, telling).is_none() {
                return python::END_CUT;
            }
            let wrapper = self.far.peek(at.frame.wrapping_sub(WRAPPER));
            let Some(wrapper) = wrapper else { return python::END_CUT };
            anchor = wrapper.wrapping_add(self.of_java(JavaOrder::OuterAnchor));
            match self.natives(cells, row, &mut at, telling) {
                Some(true) => {}
                Some(false) => return python::END,
                None => return python::END_CUT,
            }
        }
    }

    /// Goes to where Java was left.
    #[inline(never)]
    fn enter(&mut self, at: &mut At, anchor: u64) -> Option<()> {
        self.far.begin_again();
        let code = anchor.wrapping_add(CODE);
        self.far.load_four(anchor, code, anchor.wrapping_add(FRAME), code)?;
        let (stack, code, frame) = (self.far.first(), self.far.second(), self.far.third());
        // Upwards only.
        if stack <= at.stack {
            return None;
        }
        let code = if code == 0 { self.far.peek(stack.wrapping_sub(8))? } else { code };
        (at.stack, at.frame, at.code) = (stack, frame, code);
        Some(())
    }

    /// Tells frames up to the one that entered Java; `None` if that is not reached.
    #[inline(never)]
    fn frames_of_java(&mut self, at: &mut At, telling: &mut Telling) -> Option<()> {
        while at.code != self.of_java(JavaOrder::Entered) {
            self.far.begin_again();
            let interpreter = self.of_java(JavaOrder::Interpreter);
            let is_run =
                at.code.wrapping_sub(interpreter) < self.of_java(JavaOrder::InterpreterBytes);
            let (word, above) = if is_run { self.see_run(at)? } else { self.see_compiled(at)? };
            if above <= at.stack || at.left == 0 {
                return None;
            }
            at.left -= 1;
            at.stack = above;
            telling.tell(self, word);
        }
        Some(())
    }

    /// A frame of the interpreter, and where the caller's stack ends; on to the caller.
    fn see_run(&mut self, at: &mut At) -> Option<(u64, u64)> {
        let frame = at.frame;
        let method = self.far.peek(frame.wrapping_sub(METHOD))?;
        let instruction = self.far.peek(frame.wrapping_sub(INSTRUCTION))?;
        let above = self.far.peek(frame.wrapping_sub(SENDER))?;
        let fixed = self.far.load_alone(method.wrapping_add(self.of_java(JavaOrder::Fixed)))?;
        let pool = fixed.wrapping_add(self.of_java(JavaOrder::Pool));
        let name = fixed.wrapping_add(self.of_java(JavaOrder::Name));
        self.far.load_four(pool, name, pool, name)?;
        let (pool, name) = (self.far.first(), self.far.second());
        (at.code, at.frame) = (self.far.peek(frame.wrapping_add(8))?, self.far.peek(frame)?);
        self.told = java::identity_of_method(fixed, pool, name);
        Some((python::pack(method, instruction & python::NOWHERE), above))
    }

    /// The same of compiled code.
    fn see_compiled(&mut self, at: &mut At) -> Option<(u64, u64)> {
        let piece = self.piece(at.code)?;
        let [words_at, compilation, method] =
            [JavaOrder::FrameWords, JavaOrder::Compilation, JavaOrder::Method]
                .map(|order| piece.wrapping_add(self.of_java(order)));
        self.far.load_four(words_at & !7, compilation & !7, method, method)?;
        // Beside both are others, that change: whether the code may still be entered.
        let words = half_of(self.far.first(), words_at);
        let compilation = half_of(self.far.second(), compilation);
        self.told = java::identity_of_code(words, compilation, self.far.third());
        let above = at.stack.wrapping_add(words << 3);
        let word = python::pack(piece, at.code.wrapping_sub(piece));
        at.code = self.far.peek(above.wrapping_sub(8))?;
        at.frame = self.far.peek(above.wrapping_sub(16))?;
        Some((word, above))
    }

    /// The piece of compiled code that an address is in.
    #[inline(never)]
    fn piece(&mut self, code: u64) -> Option<u64> {
        for number in 0..HEAPS {
            let heap = JavaOrder::Heaps as usize + number * HEAP_WORDS;
            let first = self.java_word(heap);
            let into = code.wrapping_sub(first);
            if into >= self.java_word(heap + 1) {
                continue;
            }
            let bits = self.of_java(JavaOrder::SegmentBits) & 63;
            let map = self.java_word(heap + 2);
            let mut segment = into >> bits;
            for _ in 0..STEPS {
                let at = map.wrapping_add(segment);
                let back = self.far.load(at & !7)? >> ((at & 7) * 8) & 0xff;
                if back == UNUSED || back > segment {
                    return None;
                }
                if back == 0 {
                    let piece = first.wrapping_add(segment << bits);
                    return Some(piece.wrapping_add(self.of_java(JavaOrder::Header)));
                }
                segment -= back;
            }
        }
        None
    }

    /// Tells the native frames from what entered Java on: whether Java called them; `None` if there is more that is not known.
    #[inline(never)]
    fn natives(
        &mut self,
        cells: &Cells,
        row: &Row,
        at: &mut At,
        telling: &mut Telling,
    ) -> Option<bool> {
        let code = self.far.peek(at.frame.wrapping_add(8))?;
        let frame = self.far.peek(at.frame)?;
        let stack = at.frame.wrapping_add(16);
        if stack <= at.stack {
            return None;
        }
        at.stack = stack;
        let mut walk = Walk::from(cells, row, code, stack, frame);
        loop {
            let Position { code, lookup, stack, frame } = walk.arrived();
            let own = self.of_java(JavaOrder::Code);
            if code.wrapping_sub(own) < self.of_java(JavaOrder::CodeBytes) {
                return Some(true);
            }
            if at.left == 0 {
                return None;
            }
            at.left -= 1;
            telling.tell_native(code);
            match walk.careful_step(lookup, stack, frame, &mut ()) {
                Ok(()) => {}
                Err(End::Outermost) => return Some(false),
                Err(_) => return None,
            }
        }
    }

    /// Copies what is to be known of code.
    pub(super) fn copy_java(&mut self, to: Place, code: u64) {
        to.set(code);
        to.at(8).set(self.told);
    }
}

/// The half of an aligned word that an address is of.
fn half_of(word: u64, at: u64) -> u64 {
    word >> ((at & 4) * 8) & 0xffff_ffff
}
