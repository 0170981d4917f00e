//! Frames of PHP: each leads to the next one, to its function, and to an instruction, which says its line.

use heapattach_abi::{
    python::{self, Order},
    stacks,
};

use super::{Python, ruby::Seen};

/// Frames that are read together, words put aside for each, and words of each that are gathered: of its function
/// what it is, its name, its file and its lines; then its line, and what tells texts apart.
const BATCH: usize = 8;
const ASIDE: usize = 3;
const OF_FUNCTION: usize = 4;
const OF_TEXTS: usize = 3;
const TEXTS: usize = BATCH * OF_FUNCTION;

impl Python {
    /// A look at a frame, together with those it was called from.
    #[inline(never)]
    pub(super) fn see_php(&mut self, frame: u64) -> Option<Seen> {
        self.far.begin_again();
        let number = match self.in_batch_of_php(frame) {
            Some(number) => number,
            None => {
                self.read_batch_of_php(frame);
                match self.in_batch_of_php(frame) {
                    Some(number) => number,
                    None => return self.see_php_alone(frame),
                }
            }
        };
        let (mark, previous) = (self.mark(frame)?, self.load(frame, Order::Previous)?);
        let code = self.far.aside(number * ASIDE).at(8).get();
        if code == 0 || self.is_foreign(self.far.gathered(number * OF_FUNCTION)) {
            return Some(Seen { mark, word: 0, previous });
        }
        let of_function = |word: usize| self.far.gathered(number * OF_FUNCTION + word);
        let of_texts = |word: usize| self.far.gathered(TEXTS + number * OF_TEXTS + word);
        // Code of a file has no name.
        let own = if of_function(1) == 0 { 0 } else { of_texts(1) };
        let (lines, line) = (of_function(3), of_texts(0) & 0xffff_ffff);
        self.seen = told_apart(lines, own, of_texts(2));
        Some(Seen { mark, word: python::pack(code, line), previous })
    }

    fn is_foreign(&self, kind: u64) -> bool {
        kind & 0xff == self.order(Order::Foreign)
    }

    /// Which one of those read together a frame is.
    fn in_batch_of_php(&self, frame: u64) -> Option<usize> {
        let mut number = 0;
        while number < self.batched {
            if self.far.aside(number * ASIDE).get() == frame {
                return Some(number);
            }
            number += 1;
        }
        None
    }

    /// Reads frames from this one on: as many as are there.
    fn read_batch_of_php(&mut self, frame: u64) {
        self.batched = 0;
        // What is no script's is read where something is, and not looked at.
        let harmless = self.far.gathered_at(0);
        let (file_at, mut wanted, mut next) = (self.order(Order::File), 0, frame);
        while wanted < BATCH && next != 0 {
            let (Some(code), Some(at)) =
                (self.load(next, Order::Code), self.load(next, Order::Instruction))
            else {
                break;
            };
            let aside = self.far.aside(wanted * ASIDE);
            aside.set(next);
            aside.at(8).set(code);
            aside.at(16).set(at);
            let (first, file) =
                if code == 0 { (harmless, harmless) } else { (code, code.wrapping_add(file_at)) };
            self.far.want(2 * wanted, first, 16);
            self.far.want(2 * wanted + 1, file, 16);
            wanted += 1;
            next = self.load(next, Order::Previous).unwrap_or(0);
        }
        // The name is the second word of a function, its lines are behind its file.
        let is_as_known =
            self.order(Order::Name) == 8 && self.order(Order::Identity) == file_at + 8;
        if wanted == 0 || !is_as_known {
            return;
        }
        let bytes = (OF_FUNCTION * 8) as u64;
        let there = (self.far.gather(0, 2 * wanted, bytes * wanted as u64) / bytes) as usize;
        for number in 0..there {
            let aside = self.far.aside(number * ASIDE);
            let word =
                |python: &Self, word: usize| python.far.gathered(number * OF_FUNCTION + word);
            let is_script = aside.at(8).get() != 0 && !self.is_foreign(word(self, 0));
            let hash = self.order(Order::TextHash);
            let line = aside.at(16).get().wrapping_add(self.order(Order::Line));
            let (name, file) = (word(self, 1), word(self, 2).wrapping_add(hash));
            let name = if name == 0 { file } else { name.wrapping_add(hash) };
            let [line, name, file] =
                if is_script { [line, name, file] } else { [harmless, harmless, harmless] };
            self.far.want(3 * number, line, 8);
            self.far.want(3 * number + 1, name, 8);
            self.far.want(3 * number + 2, file, 8);
        }
        if there != 0 {
            let bytes = (OF_TEXTS * 8) as u64;
            let copied = self.far.gather(TEXTS, OF_TEXTS * there, bytes * there as u64);
            self.batched = (copied / bytes) as usize;
        }
    }

    /// The same of one frame, where those around it make no sense.
    fn see_php_alone(&mut self, frame: u64) -> Option<Seen> {
        let (mark, word) = (self.mark(frame)?, self.word_of_php(frame)?);
        self.seen = if word == 0 { 0 } else { self.identity_of_php(word).unwrap_or(0) };
        Some(Seen { mark, word, previous: self.load(frame, Order::Previous)? })
    }

    fn word_of_php(&mut self, frame: u64) -> Option<u64> {
        let code = self.load(frame, Order::Code)?;
        if code == 0 {
            return Some(0);
        }
        let line = self.load(frame, Order::Instruction)?.wrapping_add(self.order(Order::Line));
        // The instruction of a function in C is anything.
        let (kind, line) = match self.far.load_four(code, line, code, line) {
            Some(()) => (self.far.first(), self.far.second() & 0xffff_ffff),
            None => (self.far.load_alone(code)?, python::NOWHERE),
        };
        Some(if self.is_foreign(kind) { 0 } else { python::pack(code, line) })
    }

    /// What a request compiled lies where the last one had other code: texts tell them apart.
    fn identity_of_php(&mut self, word: u64) -> Option<u64> {
        let code = python::code_of(word);
        let [identity, name, file] = [Order::Identity, Order::Name, Order::File]
            .map(|order| code.wrapping_add(self.order(order)));
        self.far.load_four(identity, name, file, file)?;
        let (identity, name, file) = (self.far.first(), self.far.second(), self.far.third());
        let hash = self.order(Order::TextHash);
        let [own, file] =
            [if name == 0 { file } else { name }, file].map(|at| at.wrapping_add(hash));
        self.far.load_four(own, file, file, file)?;
        let own = if name == 0 { 0 } else { self.far.first() };
        Some(told_apart(identity, own, self.far.second()))
    }
}

fn told_apart(lines: u64, own: u64, file: u64) -> u64 {
    stacks::hash_words(stacks::hash_step(lines, own), 0, 0) ^ file
}
