//! A stack is mostly one of the last ones, but for its top: what lies further up need not be walked
//! again, only looked at.
//!
//! A step of a walk depends on nothing but where it is (code, stack pointer, and the frame pointer
//! if a frame further up is found by it) and on the words it loads. So if a walk comes to where a
//! remembered one has been, and all words that this one loaded from there on are unchanged, the rest
//! is the same. Comparing independent words is ten times as fast as one step that waits for another.

use core::sync::atomic::{
    Ordering::{Relaxed, Release, SeqCst},
    compiler_fence,
};

use heapattach_abi::{
    control,
    memo::{self, BUSY, FRAMES_AT, MEMO_BYTES, MEMOS, WORDS_AT},
    region, row,
    stacks::{self, End},
};

use crate::{
    bounds,
    cells::Cells,
    frame::Frame,
    notes::Notes,
    readable::Span,
    row::Row,
    rules::Tables,
    shared_word::Place,
    unwind::{Position, Walk},
};

/// Frames walked before the memo helps; beyond, it has missed.
const GOOD: usize = 4;
/// Misses after which a memo is made anew, at first and at most: one that is of no use, however
/// often it is made, must cost nothing.
const PATIENCE: u64 = 2;
const MOST_PATIENCE: u64 = 1 << 9;

/// A stack that is partly remembered comes again so often before it is wholly.
const AGAIN: u64 = 8;

/// No stack pointer.
const NOWHERE: u64 = u64::MAX;

/// A stack, known by its hash.
pub(crate) struct Known {
    pub hash: u64,
    pub frames: usize,
    pub end: End,
    /// Frames that had to be walked.
    pub walked: usize,
}

/// A thread's memo, held until it is given back.
pub(crate) struct Memo {
    place: Place,
    frames: usize,
    words: usize,
}

impl Memo {
    /// The memo of this thread, unless it has none or is using it just now.
    #[inline(always)]
    pub(crate) fn claim(cells: &Cells, row: &Row) -> Option<Self> {
        let first = cells.region().at(region::ROWS_AT).address();
        let number = (row.address() - first) as usize / row::ROW_BYTES;
        if number == 0 || number >= MEMOS {
            return None;
        }
        let place = cells.region().at(region::MEMOS_AT + number * MEMO_BYTES);
        // A signal handler of this thread that comes in between has given it back when it returns.
        if place.at(BUSY).get() != 0 {
            return None;
        }
        place.at(BUSY).word().store(1, Relaxed);
        compiler_fence(SeqCst);
        let count = |at, most: usize| (place.at(at).get() as usize).min(most);
        let frames = count(memo::FRAME_COUNT, memo::FRAMES);
        let words = count(memo::WORD_COUNT, memo::WORDS);
        Some(Self { place, frames, words })
    }

    pub(crate) fn give_back(self) {
        self.place.at(BUSY).word().store(0, Release);
    }

    /// The number of the stack that begins with this frame, if it is remembered whole; or 0.
    #[inline(always)]
    pub(crate) fn same(&self, cells: &Cells, frame: &Frame, row: &Row) -> u32 {
        let pointer = frame.stack_pointer();
        let part = |part| self.frame(0, part);
        let is_there = self.frames != 0
            && part(memo::Part::Stack) == frame.caller_stack(cells)
            && part(memo::Part::Code) == frame.caller(cells)
            && (part(memo::Part::First) & 1 == 0 || part(memo::Part::Frame) == frame.rbp)
            && self.is_of(&Tables::newest(cells));
        if !is_there {
            return 0;
        }
        let (end, is_bounded) = bounds::end_of_stack(cells.region(), row, pointer);
        if !is_bounded || !self.is_unchanged(0, &Span::new(pointer, end)) {
            return 0;
        }
        if self.place.at(memo::MISSES).get() != 0 {
            self.place.at(memo::MISSES).set(0);
        }
        self.place.at(memo::STACK).get() as u32
    }

    /// Whether these tables, which are up to date, led to what is remembered.
    #[inline(always)]
    fn is_of(&self, tables: &Tables) -> bool {
        self.place.at(memo::GENERATION).get() == tables.generation && !tables.is_stale
    }

    /// Walks until the memo knows the rest.
    #[inline]
    pub(crate) fn walk(&self, walk: &mut Walk, most: usize) -> Known {
        let is_valid = self.place.at(memo::GENERATION).get() == walk.generation();
        let mut count = if is_valid { self.frames } else { 0 };
        let (mut at, mut hash, mut frames) = (walk.arrived(), walk.hash_start(), 1);
        let mut next = 0;
        let mut meeting = self.meeting(next, count);
        loop {
            hash = stacks::hash_step(hash, at.code);
            while meeting < at.stack {
                next += 1;
                meeting = self.meeting(next, count);
            }
            if meeting == at.stack && self.is_at(next, at) {
                if self.is_unchanged(next, walk.reach().span())
                    && let Some(known) = self.rest(next, hash, frames, most)
                {
                    return known;
                }
                // What lies above has changed: no frame of the memo is worth a look.
                (count, meeting) = (0, NOWHERE);
            }
            if frames == most {
                return Known { hash, frames, end: walk.end_at(at), walked: frames };
            }
            if let Err(end) = walk.step(&mut at, &mut ()) {
                return Known { hash, frames, end, walked: frames };
            }
            frames += 1;
        }
    }

    /// The stack pointer in one of the remembered frames.
    fn meeting(&self, number: usize, count: usize) -> u64 {
        if number < count { self.frame(number, memo::Part::Stack) } else { NOWHERE }
    }

    fn frame(&self, number: usize, part: memo::Part) -> u64 {
        self.place.at(FRAMES_AT + number * memo::FRAME_BYTES + part as usize).get()
    }

    fn is_at(&self, number: usize, at: Position) -> bool {
        let part = |part| self.frame(number, part);
        part(memo::Part::Code) == at.code
            && (part(memo::Part::First) & 1 == 0 || part(memo::Part::Frame) == at.frame)
            && !at.is_exact()
    }

    #[inline(always)]
    fn is_unchanged(&self, number: usize, span: &Span) -> bool {
        // A program that wrote over the memo may have put anything there: no further than the words go.
        let first = ((self.frame(number, memo::Part::First) >> 1) as usize).min(self.words);
        let (mut word, end) = (self.word(first), self.word(self.words).address());
        while word.address() < end {
            // Nor is any address believed.
            if span.peek(word.get()) != Some(word.at(8).get()) {
                return false;
            }
            word = word.at(memo::WORD_BYTES);
        }
        true
    }

    /// The whole stack, of a lower part of so many frames and what is remembered above.
    fn rest(&self, number: usize, hash: u64, frames: usize, most: usize) -> Option<Known> {
        let above = self.frames - number - 1;
        let is_full = self.place.at(memo::END).get() == End::Full as u64;
        if frames + above > most || (is_full && frames + above != most) {
            return None;
        }
        let power = self.frame(number, memo::Part::Power);
        let hash = hash.wrapping_mul(power).wrapping_add(self.frame(number, memo::Part::Hash));
        Some(Known {
            hash,
            frames: frames + above,
            end: End::of(self.place.at(memo::END).get() as u8)?,
            walked: frames,
        })
    }

    /// Whether the user wants this stack to be compared with one that nothing helped to find.
    #[inline(always)]
    pub(crate) fn is_to_be_verified(&self, cells: &Cells) -> bool {
        let one_in = cells.control().at(control::VERIFY).half().load(Relaxed);
        if one_in == 0 {
            return false;
        }
        let count = self.place.at(memo::UNVERIFIED).get() + 1;
        let is_due = count >= u64::from(one_in);
        self.place.at(memo::UNVERIFIED).set(if is_due { 0 } else { count });
        is_due
    }

    /// Whether it is time to remember another stack, after this one, of which so many frames were
    /// walked.
    pub(crate) fn is_outdated(&self, walked: usize, stack: u32) -> bool {
        let field = |at| self.place.at(at);
        if walked <= GOOD {
            field(memo::MISSES).set(0);
            field(memo::PATIENCE).set(PATIENCE);
            return self.comes_again(stack);
        }
        let misses = field(memo::MISSES).get() + 1;
        let patience = field(memo::PATIENCE).get().max(PATIENCE);
        let is_enough = misses >= patience;
        field(memo::MISSES).set(if is_enough { 0 } else { misses });
        if is_enough {
            field(memo::PATIENCE).set((patience * 2).min(MOST_PATIENCE));
        }
        is_enough
    }

    /// Whether a stack that is partly remembered has come so often in turn that it should be wholly.
    fn comes_again(&self, stack: u32) -> bool {
        let other = self.place.at(memo::OTHER);
        let times = if other.get() as u32 == stack { other.get() >> 32 } else { 0 };
        let is_enough = times >= AGAIN;
        let times = if is_enough { 0 } else { times + 1 };
        other.set(times << 32 | u64::from(stack));
        is_enough
    }

    /// Remembers the stack with this number.
    #[cold]
    #[inline(never)]
    pub(crate) fn remember(&self, walk: &mut Walk, most: usize, stack: u32) {
        self.place.at(memo::FRAME_COUNT).set(0);
        let (mut at, mut frames) = (walk.arrived(), 0);
        let mut notes = Notes::new(self.place.at(WORDS_AT));
        let end = loop {
            if frames == memo::FRAMES || notes.words + Walk::LOADS > memo::WORDS || at.is_exact() {
                return;
            }
            self.set_frame(frames, memo::Part::Stack, at.stack);
            self.set_frame(frames, memo::Part::Code, at.code);
            self.set_frame(frames, memo::Part::Frame, at.frame);
            self.set_frame(frames, memo::Part::First, notes.words as u64);
            frames += 1;
            notes.used = 0;
            let went = walk.step(&mut at, &mut notes);
            notes.look_again(walk, self.frame(frames - 1, memo::Part::First) as usize);
            // For now: how this frame used the frame pointer.
            self.set_frame(frames - 1, memo::Part::Hash, notes.used);
            match went {
                Err(end) => break end,
                Ok(()) if frames == most => break End::Full,
                Ok(()) => {}
            }
        };
        let words = notes.words;
        // Of an end that is not a proper one it is not known what it depends on.
        if !matches!(end, End::Outermost | End::Full) {
            return;
        }
        self.look_back(frames, words);
        let words = self.close_up(frames, words);
        let head = |at, value: u64| self.place.at(at).set(value);
        head(memo::WORD_COUNT, words as u64);
        head(memo::GENERATION, walk.generation());
        head(memo::STACK, stack.into());
        head(memo::END, end as u64);
        head(memo::FRAME_COUNT, frames as u64);
    }

    fn set_frame(&self, number: usize, part: memo::Part, value: u64) {
        self.place.at(FRAMES_AT + number * memo::FRAME_BYTES + part as usize).set(value);
    }

    /// From the outermost frame down: where the frame pointer matters, and the hashes of what lies
    /// above. A saved frame pointer that no function uses is any word of the program's, and changes at
    /// every call: it is not to be compared.
    fn look_back(&self, frames: usize, words: usize) {
        let (mut hash, mut power, mut matters) = (0_u64, 1_u64, false);
        let mut last_word = words;
        for number in (0..frames).rev() {
            let used = self.frame(number, memo::Part::Hash);
            let first = self.frame(number, memo::Part::First) as usize;
            if number + 1 < frames {
                let saves = used & memo::RELOADS != 0;
                if saves && !matters && last_word > first {
                    // Its word is the last one that was loaded.
                    self.word(last_word - 1).set(0);
                }
                matters = used & memo::USES != 0 || (matters && !saves);
                let above = self.frame(number + 1, memo::Part::Code);
                hash = hash.wrapping_add(stacks::hash_of(above).wrapping_mul(power));
                power = power.wrapping_mul(stacks::HASH_BASE);
            } else {
                matters = false;
            }
            last_word = first;
            self.set_frame(number, memo::Part::First, (first as u64) << 1 | u64::from(matters));
            self.set_frame(number, memo::Part::Hash, hash);
            self.set_frame(number, memo::Part::Power, power);
        }
    }

    fn word(&self, number: usize) -> Place {
        self.place.at(WORDS_AT + number * memo::WORD_BYTES)
    }

    /// Leaves out the words that do not matter; answers how many are left.
    fn close_up(&self, frames: usize, words: usize) -> usize {
        let (mut frame, mut left) = (0, 0);
        for number in 0..=words {
            while frame < frames {
                let first = self.frame(frame, memo::Part::First);
                if first >> 1 != number as u64 {
                    break;
                }
                self.set_frame(frame, memo::Part::First, (left as u64) << 1 | first & 1);
                frame += 1;
            }
            if number < words && self.word(number).get() != 0 {
                let (from, to) = (self.word(number), self.word(left));
                to.set(from.get());
                to.at(8).set(from.at(8).get());
                left += 1;
            }
        }
        left
    }
}
