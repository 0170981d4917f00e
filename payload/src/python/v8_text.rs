//! What is copied of a function of JavaScript: its name and file, where it begins, and what tells its lines.

use heapattach_abi::python::{
    FILE_AT, FILE_BYTES, LENGTH_AT, LINES_AT, NAME_AT, NAME_BYTES, Order, RUBY_LINES_BYTES,
    V8_TEXT_CUT,
};

use super::{Python, v8::is_object};
use crate::shared_word::Place;

/// In a map, what the object is, 32 bits above; from this on it is no text.
const KIND: u64 = 8;
const NO_TEXT: u64 = 128;
/// How a text has its letters, and whether they have one byte.
const FORM: u64 = 7;
const PLAIN: u64 = 0;
const JOINED: u64 = 1;
const EXTERNAL: u64 = 2;
const SLICED: u64 = 3;
const THIN: u64 = 5;
const NARROW: u64 = 8;
/// External, but where its letters are is not said in it.
const UNSAID: u64 = 16;
/// In a scope: bits that say what it has.
const HAS_CLASS: u64 = 1 << 10;
const HAS_NAME: u64 = 3 << 12;
const HAS_INFERRED: u64 = 1 << 14;
/// Where variables begin that are preceded by where the function lies.
const BEHIND_PLACE: u64 = 48;
/// So many variables have their names in the scope itself.
const INLINED: u64 = 75;
const VARIABLES: u64 = 1 << 16;
/// Bytes of a script that are looked through for the line on which a function begins.
const LARGEST: u64 = 1 << 21;
const HALF: u32 = 32;

/// Where words that are found out lie among those that are put aside.
const FOUND: usize = 20;
const NAME: usize = FOUND;
const START: usize = FOUND + 1;
const END: usize = FOUND + 2;
const TEXT: usize = FOUND + 3;
const TEXT_BYTES: usize = FOUND + 4;
const TEXT_WIDE: usize = FOUND + 5;
const LINE: usize = FOUND + 6;
const IS_WIDE: usize = FOUND + 7;
const TABLE_BYTES: usize = FOUND + 8;
const TABLE: usize = FOUND + 9;
const LETTERS_BYTES: usize = FOUND + 10;
const LETTERS: usize = FOUND + 11;

impl Python {
    /// Finds out what is copied of the function that is told: its table of positions, and its text if there is one.
    #[inline(never)]
    fn find_out_of_v8(&mut self) -> Option<()> {
        // Far from each other: a vector register would be used for two of them, and these are the target's.
        for number in [NAME, LINE, TABLE_BYTES, LETTERS_BYTES] {
            self.far.aside(number).set(0);
        }
        self.far.begin_again();
        self.scope_of_v8()?;
        self.text_of_v8(self.text_of_script(0))?;
        let (at, wide) = (self.found(TEXT), self.found(TEXT_WIDE));
        let (start, end) = (self.found(START), self.found(END));
        let (first, length) = (at.wrapping_add(start << wide), end.wrapping_sub(start) << wide);
        if start > end || end << wide > self.found(TEXT_BYTES) || start << wide > LARGEST {
            return None;
        }
        let lines = self.lines_of_v8(at, first, wide)?;
        self.far.aside(LINE).set(lines + 1);
        self.far.aside(IS_WIDE).set(wide);
        self.far.begin_again();
        let table = self.positions_of_v8();
        let bytes = self.far.load_alone(table.wrapping_add(7)).unwrap_or(0) >> HALF;
        if table != 0 && bytes <= RUBY_LINES_BYTES {
            let words = [TABLE, TABLE_BYTES, LETTERS, LETTERS_BYTES];
            let values = [table.wrapping_add(15), bytes, first, length];
            for (which, value) in words.into_iter().zip(values) {
                self.far.aside(which).set(value);
            }
        }
        Some(())
    }

    /// The table of positions and the text of the function that is told, if lines are told by these.
    pub(super) fn tables_of_v8(&mut self) -> [(u64, u64); 2] {
        let _ = self.find_out_of_v8();
        let found = |which| self.found(which);
        [(found(TABLE), found(TABLE_BYTES)), (found(LETTERS), found(LETTERS_BYTES))]
    }

    fn found(&self, which: usize) -> u64 {
        self.far.aside(which).get()
    }

    /// The name of the function that is told, and where in its script it lies.
    fn scope_of_v8(&mut self) -> Option<()> {
        let scope = self.shared_of_v8(self.batched, self.order(Order::Name)).wrapping_sub(1);
        let first = self.order(Order::Index);
        self.far.load_four(scope, scope.wrapping_add(8), scope.wrapping_add(24), scope)?;
        let (map, flags, count) = (self.far.first(), self.far.second(), self.far.third() >> HALF);
        if self.kind_of(map)? != self.order(Order::Scope) || count > VARIABLES {
            return None;
        }
        // A number by itself, or the upper half of a word.
        let flags = flags >> HALF | flags;
        let names = if count < INLINED { count } else { 1 };
        let mut at = scope.wrapping_add(first + 8 * (count + names));
        if flags & HAS_CLASS != 0 {
            at = at.wrapping_add(8);
        }
        if flags & HAS_NAME != 0 {
            let name = self.far.load_alone(at)?;
            self.far.aside(NAME).set(name);
            at = at.wrapping_add(16);
        }
        if flags & HAS_INFERRED != 0 {
            let is_named = self.text_of_v8(self.found(NAME)).is_some();
            if !is_named || self.found(TEXT_BYTES) == 0 {
                let inferred = self.far.load_alone(at)?;
                self.far.aside(NAME).set(inferred);
            }
            at = at.wrapping_add(8);
        }
        let place = if first == BEHIND_PLACE { scope.wrapping_add(32) } else { at };
        let after = place.wrapping_add(8);
        self.far.load_four(place, after, place, after)?;
        let (start, end) = (self.far.first(), self.far.second());
        self.far.aside(START).set(start >> HALF);
        self.far.aside(END).set(end >> HALF);
        Some(())
    }

    /// What the object is that has this map.
    #[inline(never)]
    fn kind_of(&mut self, map: u64) -> Option<u64> {
        let word = self.far.load_alone(map.wrapping_sub(1).wrapping_add(KIND))?;
        Some(word >> HALF & 0xffff)
    }

    /// Where the letters of a text are, how many bytes, and whether a letter has two; of one that was joined, of its
    /// first part, and what the rest is.
    #[inline(never)]
    fn text_of_v8(&mut self, text: u64) -> Option<()> {
        let (mut text, mut skipped, mut wanted) = (text, 0_u64, u64::MAX);
        self.statement = 0;
        // As often as there are looks: each takes some.
        loop {
            if !is_object(text) {
                return None;
            }
            let head = text.wrapping_sub(1);
            let (second, third) = (head.wrapping_add(8), head.wrapping_add(16));
            self.far.load_four(head, second, third, third)?;
            let (map, leads) = (self.far.first(), self.far.third());
            let length = self.far.second() >> HALF;
            let kind = self.kind_of(map)?;
            if kind >= NO_TEXT {
                return None;
            }
            wanted = if wanted == u64::MAX { length } else { wanted };
            match kind & FORM {
                THIN => text = leads,
                JOINED if self.statement == 0 => {
                    self.statement = self.far.load_alone(head.wrapping_add(24))?;
                    (text, wanted) = (leads, u64::MAX);
                }
                SLICED => {
                    skipped += self.far.load_alone(head.wrapping_add(24))? >> HALF;
                    text = leads;
                }
                PLAIN | EXTERNAL => {
                    let is_far = kind & FORM == EXTERNAL;
                    if skipped + wanted > length || is_far && kind & UNSAID != 0 {
                        return None;
                    }
                    let at =
                        if is_far { self.far.load_alone(head.wrapping_add(24))? } else { third };
                    let wide = u64::from(kind & NARROW == 0);
                    self.far.aside(TEXT).set(at.wrapping_add(skipped << wide));
                    self.far.aside(TEXT_BYTES).set(wanted << wide);
                    self.far.aside(TEXT_WIDE).set(wide);
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// How many lines end between two places.
    #[inline(never)]
    fn lines_of_v8(&mut self, from: u64, end: u64, wide: u64) -> Option<u64> {
        let (ends, mask) = match wide {
            0 => (0x0a0a_0a0a_0a0a_0a0a, 0x7f7f_7f7f_7f7f_7f7f),
            _ => (0x000a_000a_000a_000a, 0x7fff_7fff_7fff_7fff_u64),
        };
        let (mut lines, mut at) = (0, from & !7);
        while at < end {
            // A look a page, and not more pages than there may be.
            self.far.begin_again();
            let mut word = self.far.load(at)?;
            if at < from {
                word &= u64::MAX << (8 * (from - at));
            }
            if end - at < 8 {
                word &= u64::MAX >> (8 * (8 - (end - at)));
            }
            let differs = word ^ ends;
            let others = (differs & mask).wrapping_add(mask) | differs | mask;
            lines += u64::from((!others).count_ones());
            at = at.wrapping_add(8);
        }
        Some(lines)
    }

    /// Copies what is to be known of the function that is told.
    #[inline(never)]
    pub(super) fn copy_v8(&mut self, to: Place, tables: [(u64, u64); 2]) {
        let words = [LINE, START, END, TEXT, IS_WIDE];
        for (number, which) in (0..).zip(words) {
            to.at(number * 8).set(self.found(which));
        }
        to.at(24).set(tables[0].1);
        let name = self.found(NAME);
        self.copy_text_of_v8(to.at(NAME_AT), name, NAME_BYTES as u64);
        let file = self.text_of_script(1);
        self.copy_text_of_v8(to.at(FILE_AT), file, FILE_BYTES as u64);
        let (table, text) = (tables[0], tables[1]);
        let copied = self.copy_tables(to.at(LINES_AT), table, text);
        to.at(LENGTH_AT).set(if text.1 == 0 { 0 } else { copied });
    }

    /// Copies a text: how much of it there is, and behind that its letters.
    #[inline(never)]
    fn copy_text_of_v8(&mut self, to: Place, text: u64, most: u64) {
        let (mut text, mut copied, mut wide, mut cut) = (text, 8, 0, 0);
        self.far.begin_again();
        while cut == 0 && self.text_of_v8(text).is_some() {
            let (at, bytes) = (self.found(TEXT), self.found(TEXT_BYTES));
            // Parts of other letters are left out.
            let is_alike = copied == 8 || bytes == 0 || wide == self.found(TEXT_WIDE);
            let room = if is_alike { most - copied } else { 0 };
            let done = self.far.copy(to.at(copied as usize), at, bytes.min(room));
            wide = if copied == 8 { self.found(TEXT_WIDE) } else { wide };
            copied += done;
            cut = if done < bytes { V8_TEXT_CUT } else { 0 };
            text = self.statement;
        }
        to.set(cut | (copied - 8) << 1 | wide);
    }
}
