//! Copies of what is to be known of code, each made once: the code may be gone before the reader comes to it.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    java::COPY_WORDS,
    python::{
        self, CODE_ENTRY_BYTES, CODE_PROBES, CODES, COPIED_WORDS, FILE_AT, FILE_BYTES, LENGTH_AT,
        LINES_AT, LINES_BYTES, NAME_AT, NAME_BYTES, OBJECT_BYTES, Order, RUBY_LINES_BYTES,
    },
    region, stacks,
};

use super::Python;
use crate::shared_word::Place;

impl Python {
    /// What tells the code of a frame from other code at its place.
    pub(super) fn identity(&mut self, word: u64) -> Option<u64> {
        let is_seen = self.is_v8() || self.is_lua() || self.is_ruby() || self.is_perl();
        if is_seen || self.is_java() || self.is_luajit() || self.has_one_thread() {
            return Some(self.told).filter(|&told| told != 0);
        }
        self.load_of(python::code_of(word), Order::Identity)
    }

    /// The copy of the code of a frame, made if there is none yet; 0 if there is no room.
    #[inline(never)]
    pub(super) fn copied(&mut self, region: Place, word: u64) -> u64 {
        let Some(identity) = self.identity(word) else { return 0 };
        let hash = python::hash_code(python::code_of(word), identity);
        for probe in 0..CODE_PROBES {
            let entry = ((hash >> 7) as usize + probe) & (CODES - 1);
            let entry = region.at(region::CODES_AT + entry * CODE_ENTRY_BYTES);
            match entry.word().compare_exchange(0, hash, AcqRel, Acquire) {
                Ok(_) => {
                    let copy = self.copy(region, python::code_of(word));
                    entry.at(8).word().store(copy + 1, Release);
                    return copy;
                }
                // One that another thread is just copying is told without.
                Err(known) if known == hash => {
                    return entry.at(8).word().load(Acquire).saturating_sub(1);
                }
                Err(_) => {}
            }
        }
        0
    }

    /// Copies a code object, and what it leads to.
    fn copy(&mut self, region: Place, code: u64) -> u64 {
        let is_java = self.is_java();
        let [table, index] = if self.is_perl() {
            self.tables_of_perl()
        } else if is_java {
            [(0, 0); 2]
        } else {
            self.tables(code)
        };
        let words = (LINES_AT as u64 + whole_words(table.1) + whole_words(index.1)) / 8;
        let words = if is_java { COPY_WORDS as u64 } else { words };
        let copied = region.at(region::COPIED_WORDS_TAKEN).word().fetch_add(words, Relaxed);
        if copied.wrapping_add(words) > COPIED_WORDS {
            return 0;
        }
        let taken = region.at(region::STACK_WORDS_TAKEN).word().fetch_add(words, Relaxed);
        if taken.wrapping_add(words) > stacks::STACK_WORDS as u64 {
            return 0;
        }
        let to = region.at(region::STACK_WORDS_AT + taken as usize * 8);
        if self.is_perl() {
            self.copy_perl(to, code);
            return taken;
        }
        if is_java {
            self.copy_java(to, code);
            return taken;
        }
        if self.is_v8() {
            self.copy_v8(to, [table, index]);
            return taken;
        }
        if self.is_lua() {
            self.copy_lua(to, code, [table, index]);
            return taken;
        }
        if self.is_luajit() {
            self.copy_luajit(to, code, table);
            return taken;
        }
        self.far.copy(to, code, OBJECT_BYTES as u64);
        for (order, at, most) in
            [(Order::Name, NAME_AT, NAME_BYTES), (Order::File, FILE_AT, FILE_BYTES)]
        {
            self.copy_text(to.at(at), code, order, most as u64);
        }
        let copied = self.copy_tables(to.at(LINES_AT), table, index);
        to.at(LENGTH_AT).set(copied);
        taken
    }

    fn copy_text(&mut self, to: Place, code: u64, order: Order, most: u64) {
        let Some(text) = self.load_of(code, order) else { return };
        if !self.is_ruby() {
            self.far.copy(to, text, most);
        } else if let Some(text) = self.text_of_ruby(text) {
            self.copy_text_of_ruby(to, text, most);
        }
    }

    /// Copies a table, and from the next word on what leads to its rows; answers how many bytes that are.
    #[inline(never)]
    pub(super) fn copy_tables(&mut self, to: Place, table: (u64, u64), index: (u64, u64)) -> u64 {
        let (at, length) = table;
        if length == 0 {
            return 0;
        }
        let copied = self.far.copy(to, at, length);
        let (at, more) = index;
        if more == 0 {
            return copied;
        }
        let whole = whole_words(length);
        let is_whole = copied == length && self.far.copy(to.at(whole as usize), at, more) == more;
        if is_whole { whole + more } else { 0 }
    }

    /// What is copied with a code object, not longer than there is room.
    fn tables(&mut self, code: u64) -> [(u64, u64); 2] {
        let [table, index] = if self.is_ruby() {
            self.tables_of_ruby(code)
        } else if self.is_v8() {
            self.tables_of_v8()
        } else if self.is_lua() {
            self.tables_of_lua(code)
        } else if self.is_luajit() {
            self.tables_of_luajit(code)
        } else {
            return [self.table(code), (0, 0)];
        };
        let fits = whole_words(table.1).saturating_add(whole_words(index.1)) <= RUBY_LINES_BYTES;
        if fits { [table, index] } else { [(0, 0); 2] }
    }

    /// Where the table of lines of a code object is, or the name of its class, and how long that is.
    fn table(&mut self, code: u64) -> (u64, u64) {
        if self.order(Order::Class) != 0 {
            let class = self.load_of(code, Order::Class).filter(|&class| class != 0);
            let name = class.and_then(|class| self.load_of(class, Order::ClassName));
            return name.map_or((0, 0), |name| (name, NAME_BYTES as u64));
        }
        let lines = self.load_of(code, Order::Lines).unwrap_or(0);
        let length = self.far.load_alone(lines.wrapping_add(self.order(Order::Length)));
        let length = length.filter(|&length| length <= LINES_BYTES).unwrap_or(0);
        (lines.wrapping_add(self.order(Order::Bytes)), length)
    }

    pub(super) fn load_of(&mut self, code: u64, order: Order) -> Option<u64> {
        self.far.load_alone(code.wrapping_add(self.order(order)))
    }
}

/// Bytes of as many words as so many bytes begin.
fn whole_words(bytes: u64) -> u64 {
    bytes.saturating_add(7) & !7
}
