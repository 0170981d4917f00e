//! Frames of Perl: what an interpreter is in the middle of lies on stacks of contexts, the innermost one first,
//! and each context says at which statement it was entered. The names of functions are behind their code.

use heapattach_abi::{
    python::{
        self, FILE_AT, FILE_BYTES, LENGTH_AT, LINES_AT, NAME_AT, NAME_BYTES, Order, PERL_EVAL,
        PERL_FILE, PERL_REQUIRED, PERL_SORT,
    },
    row, stacks,
};

use super::{LONGEST_WAIT, Python, Telling, is_due};
use crate::{arch, row::Row, shared_word::Place};

/// In a stack of contexts: the first one, the stack around it, the number of the last one, and what it is for.
const CONTEXTS: u64 = 8;
const AROUND: u64 = 16;
const LAST: u64 = 32;
const PURPOSE: u64 = 40;
const IS_MAIN: u64 = 1;
const IS_SORT: u64 = 3;
/// Stacks of one interpreter that are looked at.
const MOST_STACKS: usize = 64;

/// A context: its length, what it is, the statement it was entered at, where it returns to, and its function.
const CONTEXT: u64 = 104;
const ENTERED_AT: u64 = 16;
const RETURNS_TO: u64 = 48;
const FUNCTION: u64 = 72;
/// What it is: nothing, a function, a format, or code that is evaluated.
const KIND: u64 = 0xf;
const NOTHING: u64 = 0;
const SUB: u64 = 9;
const FORMAT: u64 = 10;
const EVAL: u64 = 11;
/// Code of a pattern that is in no function of its own.
const IN_PATTERN: u64 = 0x80;
/// A block of `eval` or `try`, or what C calls as such.
const IS_BLOCK: u64 = 0x40 | 0x80;
/// Above that: the operation that evaluates. Orders say which number `require` has in this release; these come
/// behind it.
const OPERATION: u64 = 16 + 7;
const RUNS_FILE: u64 = 1;
const EVALUATES_TEXT: u64 = 3;

/// In a statement: its line, then its package, file and number.
const LINE_AT: u64 = 32;
const LINE_BYTES: u64 = 32;
/// In what a function leads to: its package, its entry in the table of symbols, and flags.
const PACKAGE_OF_FUNCTION: u64 = 32;
const ENTRY: u64 = 56;
const FLAGS: u64 = 88;
/// The entry is a name.
const IS_NAMED: u64 = 0x8000 << 32;
/// In what an entry leads to: its name and its package.
const NAME: u64 = 32;
const PACKAGE: u64 = 40;
/// In a package: flags, of which one says that it has a name; in what it leads to: the name, and, in the upper
/// half, of how many it is the first.
const PACKAGE_FLAGS: u64 = 8;
const HAS_NAME: u64 = 0x0200_0000 << 32;
const PACKAGE_NAME: u64 = 32;
const PACKAGE_NAMES: u64 = 56;

/// Frames that are read together, words put aside for each, and words of each that are gathered.
const BATCH: usize = 8;
const ASIDE: usize = 3;
const GATHERED: usize = 5;
/// Behind them, the entries of their functions.
const ENTRIES: usize = BATCH * GATHERED;
/// Below this, a function is none, but a name.
const LEAST_FUNCTION: u64 = 8;

/// A walk from frame to frame. Numbers that begin as 0 do not lie side by side: a vector register would be used for
/// two of them, and these are the target's.
#[repr(C)]
struct Walk {
    pending: usize,
    statement: u64,
    told: usize,
    most: usize,
}

impl Python {
    /// Whether frames are Perl's.
    pub(super) fn is_perl(&self) -> bool {
        self.order(Order::Statement) != 0
    }

    /// The innermost stack of contexts of this thread's interpreter, if it has one.
    pub(super) fn innermost_of_perl(&mut self, row: &Row) -> Option<u64> {
        let slot = arch::thread_pointer().wrapping_add(self.order(Order::Variable));
        let known = row.field(row::PYTHON_STATE);
        if known.get() == 0 && !is_due(row, LONGEST_WAIT) {
            return None;
        }
        for _ in 0..2 {
            let state = known.get();
            if state != 0 {
                self.far.want(0, slot, 8);
                self.far.want(1, state.wrapping_add(self.order(Order::Statement)), 8);
                self.far.want(2, state.wrapping_add(self.order(Order::Current)), 8);
                let is_there = self.far.gather(0, 3, 24) == 24;
                if is_there && self.far.gathered(0) == state {
                    row.field(row::PYTHON_WAIT).set(0);
                    self.statement = self.far.gathered(1);
                    return Some(self.far.gathered(2)).filter(|&stack| stack != 0);
                }
            }
            known.set(self.far.load_alone(slot).unwrap_or(0));
            if known.get() == 0 || known.get() == state {
                break;
            }
        }
        known.set(0);
        None
    }

    /// Tells so many frames from the innermost one on, as words; answers why there are no more.
    pub(super) fn each_of_perl(
        &mut self,
        innermost: u64,
        most: usize,
        telling: &mut Telling,
    ) -> u8 {
        let mut walk = Walk { statement: self.statement, pending: 0, told: 0, most };
        let is_whole = self.walk(&mut walk, innermost, telling).is_some();
        let are_all_told = self.tell_pending(&mut walk, telling).is_some();
        if is_whole && are_all_told { python::END } else { python::END_CUT }
    }

    /// All stacks of contexts; `None` where there is no more.
    fn walk(&mut self, walk: &mut Walk, innermost: u64, telling: &mut Telling) -> Option<()> {
        let mut stack = innermost;
        for _ in 0..MOST_STACKS {
            self.far.want(0, stack, PURPOSE + 8);
            if self.far.gather(0, 1, PURPOSE + 8) != PURPOSE + 8 {
                return None;
            }
            let word = |python: &Self, at: u64| python.far.gathered(at as usize / 8);
            let (contexts, around) = (word(self, CONTEXTS), word(self, AROUND));
            let (last, purpose) = (word(self, LAST) as i32, word(self, PURPOSE) >> 32);
            let mut left = if last < 0 { 0 } else { last as u64 + 1 };
            while left != 0 {
                left -= 1;
                let at = contexts.wrapping_add(left.wrapping_mul(CONTEXT));
                self.context(walk, at, purpose, telling)?;
            }
            if purpose == IS_MAIN {
                return self.note(walk, (PERL_FILE, true), telling);
            }
            stack = around;
        }
        None
    }

    /// One context; `None` where there is no more.
    fn context(
        &mut self,
        walk: &mut Walk,
        at: u64,
        purpose: u64,
        telling: &mut Telling,
    ) -> Option<()> {
        let what = self.far.load(at)?;
        let kind = what & KIND;
        let is_function = (kind == SUB && what & IN_PATTERN == 0) || kind == FORMAT;
        let frame = if is_function {
            let function = self.far.load(at.wrapping_add(FUNCTION))?;
            (function, self.far.load(at.wrapping_add(RETURNS_TO))? == 0)
        } else if kind == EVAL && what & IS_BLOCK == 0 {
            let operation = (what >> OPERATION & 0x1ff).wrapping_sub(self.order(Order::Mark));
            if operation == EVALUATES_TEXT {
                (PERL_EVAL, false)
            } else if operation <= RUNS_FILE {
                (PERL_REQUIRED, false)
            } else {
                return Some(());
            }
        } else if kind == NOTHING && purpose == IS_SORT {
            (PERL_SORT, true)
        } else {
            return Some(());
        };
        self.note(walk, frame, telling)?;
        walk.statement = self.far.load(at.wrapping_add(ENTERED_AT))?;
        Some(())
    }

    /// Puts a frame aside: its function, and whether the loop was called for it.
    fn note(
        &mut self,
        walk: &mut Walk,
        (function, is_outermost): (u64, bool),
        telling: &mut Telling,
    ) -> Option<()> {
        if walk.pending == BATCH {
            self.tell_pending(walk, telling)?;
        }
        if walk.told + walk.pending >= walk.most {
            return None;
        }
        let aside = self.far.aside(walk.pending * ASIDE);
        aside.set(walk.statement);
        aside.at(8).set(function);
        aside.at(16).set(u64::from(is_outermost));
        walk.pending += 1;
        Some(())
    }

    /// Tells what was put aside; `None` if some of it makes no sense, with those before.
    #[inline(never)]
    fn tell_pending(&mut self, walk: &mut Walk, telling: &mut Telling) -> Option<()> {
        let pending = walk.pending;
        walk.pending = 0;
        let sound = self.gather_pending(pending);
        for number in 0..sound {
            let aside = self.far.aside(number * ASIDE);
            let (statement, function) = (aside.get(), aside.at(8).get());
            let is_outermost = aside.at(16).get() != 0;
            let place = |word: usize| number * GATHERED + word;
            let line = self.far.gathered(place(0)) >> 32;
            let own = if function < LEAST_FUNCTION {
                function
            } else {
                self.far.gathered(ENTRIES + number)
            };
            // Its file, and its number, in the upper half, which other statements at its place would not have.
            let file = stacks::hash_step(line, self.far.gathered(place(2)));
            let place = stacks::hash_step(file, self.far.gathered(place(3)) >> 32);
            (self.told, self.function) = (stacks::hash_step(place, own), function);
            let word = python::pack(statement, line);
            walk.told += 1;
            telling.tell(self, if is_outermost { python::outermost(word) } else { word });
        }
        (sound == pending).then_some(())
    }

    /// Reads what tells frames apart that were put aside; answers of how many that is there.
    fn gather_pending(&mut self, pending: usize) -> usize {
        if pending == 0 {
            return 0;
        }
        for number in 0..pending {
            let aside = self.far.aside(number * ASIDE);
            let (line, function) = (aside.get().wrapping_add(LINE_AT), aside.at(8).get());
            self.far.want(2 * number, line, LINE_BYTES);
            let leads = if function < LEAST_FUNCTION { line } else { function };
            self.far.want(2 * number + 1, leads, 8);
        }
        let bytes = (GATHERED * 8 * pending) as u64;
        let sound = self.far.gather(0, 2 * pending, bytes) as usize / (GATHERED * 8);
        for number in 0..sound {
            let aside = self.far.aside(number * ASIDE);
            let leads = self.far.gathered(number * GATHERED + GATHERED - 1).wrapping_add(ENTRY);
            let is_one = aside.at(8).get() >= LEAST_FUNCTION;
            let at = if is_one { leads } else { aside.get().wrapping_add(LINE_AT) };
            self.far.want(number, at, 8);
        }
        if sound == 0 { 0 } else { self.far.gather(ENTRIES, sound, sound as u64 * 8) as usize / 8 }
    }

    /// What is copied with a statement: the name of a package.
    pub(super) fn tables_of_perl(&self) -> [(u64, u64); 2] {
        [(0, NAME_BYTES as u64), (0, 0)]
    }

    /// Copies what is to be known of a statement: its file, and the function that it is in.
    pub(super) fn copy_perl(&mut self, to: Place, statement: u64) {
        let function = self.function;
        to.set(if function < LEAST_FUNCTION { function } else { 0 });
        if let Some(file) = self.far.load_alone(statement.wrapping_add(LINE_AT + 16)) {
            self.far.copy(to.at(FILE_AT), file, FILE_BYTES as u64);
        }
        let is_copied = function >= LEAST_FUNCTION && self.copy_names(to, function).is_some();
        to.at(LENGTH_AT).set(if is_copied { NAME_BYTES as u64 } else { 0 });
    }

    /// Copies the names of a function and its package.
    fn copy_names(&mut self, to: Place, function: u64) -> Option<()> {
        let leads = self.far.load_alone(function)?;
        let [package, entry, flags] =
            [PACKAGE_OF_FUNCTION, ENTRY, FLAGS].map(|at| leads.wrapping_add(at));
        self.far.load_four(package, entry, flags, flags)?;
        let (package, entry) = (self.far.first(), self.far.second());
        let (name, package) = if self.far.third() & IS_NAMED != 0 {
            (entry, package)
        } else {
            let leads = self.far.load_alone(entry)?;
            let [name, package] = [NAME, PACKAGE].map(|at| leads.wrapping_add(at));
            self.far.load_four(name, package, name, package)?;
            (self.far.first(), self.far.second())
        };
        self.far.copy(to.at(NAME_AT), name, NAME_BYTES as u64);
        let flags = package.wrapping_add(PACKAGE_FLAGS);
        self.far.load_four(package, flags, package, flags)?;
        let (leads, is_named) = (self.far.first(), self.far.second() & HAS_NAME != 0);
        let [name, names] = [PACKAGE_NAME, PACKAGE_NAMES].map(|at| leads.wrapping_add(at));
        if !is_named {
            return None;
        }
        self.far.load_four(name, names, name, names)?;
        let (name, names) = (self.far.first(), self.far.second());
        let name = if names >> 32 == 0 { name } else { self.far.load_alone(name)? };
        (self.far.copy(to.at(LINES_AT), name, NAME_BYTES as u64) != 0).then_some(())
    }
}
