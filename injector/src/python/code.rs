//! Code objects of the target: what a Python function is called, and which line an instruction is of.
//!
//! A code object can go away and another take its place. So what is remembered of one is compared
//! with what is there, once in every look at the target.

use std::{collections::HashMap, sync::Arc};

use super::{interpreter::Interpreter, line_table, text};
use crate::{addr::RemoteAddr, memory::Memory};

/// Bytes of a code object that are compared.
const HEAD: usize = 208;
/// No honest table of lines is longer.
const TABLE_LIMIT: u64 = 1 << 20;
/// Code objects that are remembered, and bytes of their tables of lines.
const CODES_LIMIT: usize = 1 << 16;
const TABLES_LIMIT: usize = 64 << 20;

/// What is known of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name with those around it.
    pub function: Arc<str>,
    /// The file it was compiled from.
    pub file: Arc<str>,
    first_line: u32,
    lines: Arc<[u8]>,
}

/// Those that were seen, by their addresses.
#[derive(Debug, Default)]
pub struct Codes {
    known: HashMap<u64, Known>,
    tables: usize,
    /// The number of this look.
    look: u64,
}

#[derive(Debug)]
struct Known {
    /// The words that tell it from another.
    words: [u64; WORDS],
    code: Code,
    looked_at: u64,
}

const WORDS: usize = 5;

impl Code {
    /// The line of an instruction, if it is known; else the first one.
    pub fn line(&self, instruction: Option<u32>) -> Option<u32> {
        let exact = instruction.and_then(|at| line_table::line(&self.lines, self.first_line, at));
        exact.or(Some(self.first_line)).filter(|&line| line != 0)
    }
}

impl Codes {
    /// From now on what is remembered is compared once more.
    pub fn begin_look(&mut self) {
        self.look += 1;
    }

    /// The code object at an address, if it is one.
    pub fn at(&mut self, memory: &Memory, python: &Interpreter, at: u64) -> Option<&Code> {
        let is_fresh = self.known.get(&at).is_some_and(|known| known.looked_at == self.look);
        if !is_fresh {
            self.look_at(memory, python, at);
        }
        self.known.get(&at).map(|known| &known.code)
    }

    /// Reads it, unless it is still the one that is known. What was known of a place that holds no
    /// code object any more counts: whoever stood there did so a moment ago.
    fn look_at(&mut self, memory: &Memory, python: &Interpreter, at: u64) {
        let Some(words) = words(memory, python, at) else { return };
        if let Some(known) = self.known.get_mut(&at).filter(|known| known.words == words) {
            known.looked_at = self.look;
            return;
        }
        let Some(code) = read(memory, python, &words) else { return };
        if let Some(old) = self.known.remove(&at) {
            self.tables -= old.code.lines.len();
        }
        if self.known.len() < CODES_LIMIT && self.tables + code.lines.len() <= TABLES_LIMIT {
            self.tables += code.lines.len();
            self.known.insert(at, Known { words, code, looked_at: self.look });
        }
    }
}

/// What tells a code object: where its file, name and table of lines are, its first line, and what
/// the payload tells it by.
fn words(memory: &Memory, python: &Interpreter, at: u64) -> Option<[u64; WORDS]> {
    let (code, header) = (python.layout.code, python.layout.header);
    let at = RemoteAddr::new(at);
    let bytes = memory.read_vec(at, HEAD).ok()?;
    let word = |offset: u64| {
        let from = usize::try_from(offset).ok()?;
        Some(u64::from_le_bytes(*bytes.get(from..)?.first_chunk::<8>()?))
    };
    let kind = word(header - 8)?;
    if python.code_type.is_some_and(|expected| expected.get() != kind) {
        return None;
    }
    let first_line = word(code.first_line & !7)? >> ((code.first_line & 7) * 8) & 0xffff_ffff;
    let identity = word(python.layout.orders.identity)?;
    Some([word(code.file)?, word(code.name)?, word(code.lines)?, first_line, identity])
}

fn read(memory: &Memory, python: &Interpreter, words: &[u64; WORDS]) -> Option<Code> {
    let layout = &python.layout;
    let text = |at: u64| text::read(memory, layout, RemoteAddr::new(at));
    let [file, name, lines, first_line, _] = *words;
    let (file, function) = (text(file)?, text(name)?);
    let lines = RemoteAddr::new(lines);
    let length = memory.word(lines.checked_add(layout.header)?).ok()?.min(TABLE_LIMIT);
    // Behind the length and a hash.
    let start = lines.checked_add(layout.header + 16)?;
    let lines = memory.read_vec(start, usize::try_from(length).ok()?).ok()?;
    Some(Code {
        function: function.into(),
        file: file.into(),
        first_line: u32::try_from(first_line).ok()?,
        lines: lines.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_without_a_line_is_told_with_the_first() {
        let code = |first_line, lines: &[u8]| Code {
            function: "f".into(),
            file: "a.py".into(),
            first_line,
            lines: lines.into(),
        };
        let table = [0x80 | 11 << 3, 1, 2];
        assert_eq!(code(7, &table).line(Some(0)), Some(8));
        assert_eq!(code(7, &table).line(Some(5)), Some(7));
        assert_eq!(code(7, &table).line(None), Some(7));
        assert_eq!(code(0, &[]).line(None), None);
    }
}
