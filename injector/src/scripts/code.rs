//! Code objects of the target, out of the copies that the payload made of them: what a function
//! is called, and which line an instruction is of.

use std::{collections::HashMap, sync::Arc};

use heapattach_abi::{
    python::{
        CODES, COPIED_WORDS, FILE_AT, LENGTH_AT, LINES_AT, LINES_BYTES, NAME_AT, OBJECT_BYTES,
        RUBY_LINES_BYTES,
    },
    region,
    stacks::STACK_WORDS,
};

use super::{
    interpreter::{Form, Interpreter},
    layout::Layout,
    line_table, lua, lua_lines, luajit, perl, php, ruby, ruby_lines, text, v8, v8_lines,
};
use heapattach_process::{addr::RemoteAddr, memory::Memory, shared::Shared};

/// What is known of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name with those around it.
    pub function: Arc<str>,
    /// The file it was compiled from.
    pub file: Arc<str>,
    first_line: u32,
    lines: Lines,
}

/// How the line of an instruction is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lines {
    /// By a table.
    Table(Vec<u8>),
    /// By a table of so many rows of so many bytes, as Ruby has it.
    Rows(Vec<u8>, (usize, usize)),
    /// By tables as Lua has them.
    Lua(Vec<u8>, lua_lines::Form),
    /// By a table and the text, as V8 has them.
    V8(Vec<u8>, v8_lines::Form),
    /// It was stored in place of the instruction.
    Stored,
}

/// Those that were seen, by the words that their copies begin with; `None` is nonsense.
///
/// Not more than an honest payload copies: a target can name any word as the beginning of a copy.
#[derive(Debug, Default)]
pub struct Codes {
    known: HashMap<u64, Option<Code>>,
    /// Bytes of their tables of lines.
    bytes: u64,
}

/// Copies of one session; one stands for those that found no room.
const CODES_LIMIT: usize = CODES + 1;
const BYTES_LIMIT: u64 = COPIED_WORDS * 8;

impl Code {
    /// The line of an instruction, if it is known; else the first one.
    pub fn line(&self, instruction: Option<u32>) -> Option<u32> {
        let exact = instruction.and_then(|at| match &self.lines {
            Lines::Table(lines) => line_table::line(lines, self.first_line, at),
            Lines::Rows(table, rows) => ruby_lines::line(table, *rows, at),
            Lines::Lua(tables, form) => lua_lines::line(tables, *form, self.first_line, at),
            Lines::V8(copied, form) => v8_lines::line(copied, *form, self.first_line, at),
            Lines::Stored => Some(at).filter(|&line| line != 0),
        });
        exact.or(Some(self.first_line)).filter(|&line| line != 0)
    }

    /// Bytes of its table of lines.
    fn bytes(&self) -> u64 {
        match &self.lines {
            Lines::Table(lines)
            | Lines::Rows(lines, _)
            | Lines::Lua(lines, _)
            | Lines::V8(lines, _) => lines.len() as u64,
            Lines::Stored => 0,
        }
    }

    fn of(copy: &[u8], lines: Vec<u8>, python: &Interpreter) -> Option<Self> {
        match &python.form {
            Form::Python(layout, code_type) => Self::of_python(copy, lines, layout, *code_type),
            Form::Php(orders) => {
                let (function, file, first_line) = php::function(copy, &lines, orders)?;
                let (function, file) = (function.into(), file.into());
                Some(Self { function, file, first_line, lines: Lines::Stored })
            }
            Form::Perl(_) => {
                let (function, file) = perl::function(copy, &lines)?;
                let (function, file) = (function.into(), file.into());
                Some(Self { function, file, first_line: 0, lines: Lines::Stored })
            }
            Form::Lua(orders) => {
                let (function, file, first_line, form) = lua::function(copy, orders)?;
                let (function, file) = (function.into(), file.into());
                Some(Self { function, file, first_line, lines: Lines::Lua(lines, form) })
            }
            Form::LuaJit(_) => {
                let (function, file, first_line, form) = luajit::function(copy)?;
                let (function, file) = (function.into(), file.into());
                Some(Self { function, file, first_line, lines: Lines::Lua(lines, form) })
            }
            // What is copied of Java's says only where it lies.
            Form::Java(_) => None,
            Form::V8(_) => {
                let (function, file, first_line, form) = v8::function(copy)?;
                let (function, file) = (function.into(), file.into());
                Some(Self { function, file, first_line, lines: Lines::V8(lines, form) })
            }
            Form::Ruby(orders) => {
                let (function, file, first_line, rows) = ruby::function(copy, orders)?;
                let (function, file) = (function.into(), file.into());
                Some(Self { function, file, first_line, lines: Lines::Rows(lines, rows) })
            }
        }
    }

    fn of_python(
        copy: &[u8],
        lines: Vec<u8>,
        layout: &Layout,
        code_type: Option<RemoteAddr>,
    ) -> Option<Self> {
        let code = layout.code;
        let object = copy.get(..OBJECT_BYTES)?;
        let kind = word(object, layout.header - 8)?;
        if code_type.is_some_and(|expected| expected.get() != kind) {
            return None;
        }
        let first_line = word(object, code.first_line & !7)? >> ((code.first_line & 7) * 8);
        Some(Self {
            function: text::read(copy.get(NAME_AT..FILE_AT)?, layout)?.into(),
            file: text::read(copy.get(FILE_AT..LENGTH_AT)?, layout)?.into(),
            first_line: u32::try_from(first_line & 0xffff_ffff).ok()?,
            lines: Lines::Table(lines),
        })
    }
}

impl Codes {
    /// The code object whose copy begins with this word.
    pub fn at(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        python: &Interpreter,
        first: u64,
    ) -> Option<&Code> {
        if !self.known.contains_key(&first) && self.has_room() {
            let code = read(shared, memory, python, first);
            self.bytes += code.as_ref().map_or(0, Code::bytes);
            self.known.insert(first, code);
        }
        self.known.get(&first)?.as_ref()
    }

    /// How many, and bytes of what is kept of them.
    #[cfg(test)]
    pub(super) fn taken(&self) -> (usize, u64) {
        (self.known.len(), self.bytes)
    }

    fn has_room(&self) -> bool {
        self.known.len() < CODES_LIMIT && self.bytes < BYTES_LIMIT
    }
}

fn read(shared: &Shared, memory: &Memory, python: &Interpreter, first: u64) -> Option<Code> {
    let first = usize::try_from(first).ok().filter(|&first| first != 0)?;
    let copy = bytes(shared, memory, first, LINES_AT / 8)?;
    let length = word(&copy, LENGTH_AT as u64)?.min(match python.form {
        Form::Ruby(_) | Form::Lua(_) | Form::LuaJit(_) | Form::V8(_) => RUBY_LINES_BYTES,
        Form::Python(..) | Form::Php(_) | Form::Perl(_) | Form::Java(_) => LINES_BYTES,
    });
    let length = usize::try_from(length).ok()?;
    let mut lines = bytes(shared, memory, first + LINES_AT / 8, length.div_ceil(8))?;
    lines.truncate(length);
    Code::of(&copy, lines, python)
}

/// Words among those of stacks, as bytes.
fn bytes(shared: &Shared, memory: &Memory, first: usize, count: usize) -> Option<Vec<u8>> {
    if first.checked_add(count)? > STACK_WORDS {
        return None;
    }
    let mut words = vec![0; count];
    shared.words(memory, region::STACK_WORDS_AT + first * 8, &mut words).ok()?;
    Some(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

fn word(bytes: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::interpreter::tests::some, *};

    /// A copy as the payload makes one of 3.12's.
    fn copy() -> Vec<u8> {
        let mut copy = vec![0; LINES_AT];
        let mut put = |at: usize, word: u64| copy[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(8, 0x7000);
        put(64, 7 << 32);
        for (at, text) in [(NAME_AT, *b"C.method"), (FILE_AT, *b"/a/b.py\0")] {
            put(at + 16, if text[7] == 0 { 7 } else { 8 });
            put(at + 32, 0b1_1001 << 2);
            put(at + 40, u64::from_le_bytes(text));
        }
        copy
    }

    #[test]
    fn a_copy_says_what_a_function_is_called_and_where_it_is() {
        let code = Code::of(&copy(), Vec::new(), &some()).unwrap();
        assert_eq!(
            (&*code.function, &*code.file, code.line(None)),
            ("C.method", "/a/b.py", Some(7))
        );
        let mut other = copy();
        other[8] = 1;
        assert_eq!(Code::of(&other, Vec::new(), &some()), None, "it is no code object");
    }

    proptest! {
        #[test]
        fn any_copy_is_survived(at in 0..LINES_AT, bytes: [u8; 8], cut in 0..=LINES_AT) {
            let mut copy = copy();
            let end = (at + 8).min(copy.len());
            copy[at..end].copy_from_slice(&bytes[..end - at]);
            copy.truncate(cut);
            if let Some(code) = Code::of(&copy, bytes.to_vec(), &some()) {
                let _ = code.line(Some(3));
            }
        }
    }

    #[test]
    fn an_instruction_without_a_line_is_told_with_the_first() {
        let code = |first_line, lines: &[u8]| Code {
            function: "f".into(),
            file: "a.py".into(),
            first_line,
            lines: Lines::Table(lines.into()),
        };
        let table = [0x80 | 11 << 3, 1, 2];
        assert_eq!(code(7, &table).line(Some(0)), Some(8));
        assert_eq!(code(7, &table).line(Some(5)), Some(7));
        assert_eq!(code(7, &table).line(None), Some(7));
        assert_eq!(code(0, &[]).line(None), None);
    }
}
