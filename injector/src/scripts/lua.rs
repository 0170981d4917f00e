//! Lua's library in a target: which version, where its things are, and what a copy of code says.
//!
//! A row of the table counts only if the library's own functions, which it exports, read what they read at these
//! places.

use std::ops::Range;

use heapattach_abi::python::{FILE_AT, LENGTH_AT, OBJECT_BYTES, Orders};

use heapattach_process::{
    addr::RemoteAddr, little_endian::u32_at, memory::Memory, proc::maps::Mapping,
};

use super::{
    interpreter::Found,
    lua_layouts::{ROWS, Row},
    lua_lines::{Form, Table},
    lua_loop::loop_of,
};
use crate::{arch, module::lua_marks::LuaMarks};

const LONGEST_FUNCTION: u64 = 1 << 12;
/// How the text that tells the version names it.
const NAME: &[u8] = b"Lua 5.";
const VERSION_BYTES: usize = 48;
/// Code of a file or of a text, in place of a name.
pub(super) const MAIN: &str = "main chunk";
/// Letters of a text that stands for the file that it has none of.
const LETTERS: usize = 45;

/// The library that these symbols are of, and its loop.
pub(super) fn recognise(
    marks: &LuaMarks,
    memory: &Memory,
    maps: &[Mapping<'_>],
) -> Option<(Found, Range<RemoteAddr>)> {
    let told = memory.read_vec(marks.version?, VERSION_BYTES).ok()?;
    let (version, release) = version(&told)?;
    let row = ROWS.iter().find(|row| row.version == version && row.releases.contains(&release));
    let orders = match row {
        Some(row) => checked(marks, memory, row),
        None => {
            Err("its structures are not known to this heapattach (5.1, 5.2.1, 5.3.3, 5.4.3 and \
                     later ones of these are)")
        }
    };
    let eval = orders.ok().and_then(|_| loop_of(memory, maps, &marks.calls));
    let nowhere = RemoteAddr::new(0)..RemoteAddr::new(0);
    let found = Found { version: format!("5.{version}.{release}"), orders };
    Some((found, eval.unwrap_or(nowhere)))
}

/// The second and third number of the version.
fn version(told: &[u8]) -> Option<(u8, u8)> {
    let at = told.windows(NAME.len()).position(|bytes| bytes == NAME)? + NAME.len();
    let digit =
        |byte: &u8| char::from(*byte).to_digit(10).and_then(|digit| u8::try_from(digit).ok());
    let version = digit(told.get(at)?)?;
    // The first release of 5.1 does not say that it is one.
    let release = if told.get(at + 1) == Some(&b'.') { digit(told.get(at + 2)?)? } else { 0 };
    Some((version, release))
}

/// The orders of a version, if the library's own functions read what they read at these places.
fn checked(marks: &LuaMarks, memory: &Memory, row: &Row) -> Result<Orders, &'static str> {
    let reads = |range: &Range<RemoteAddr>, places: &[u64]| {
        let told = arch::read_distances(&body(memory, range), range.start);
        places.iter().all(|place| told.contains(place))
    };
    let of_calls = if row.orders.step == 0 { row.orders.previous } else { row.orders.first_call };
    let is_known = reads(&marks.reads_state, &[row.common])
        && reads(&marks.reads_calls, &[row.orders.current, of_calls])
        && reads(&marks.reads_values, &[row.orders.values_end]);
    if !is_known {
        return Err("its functions read calls in a way that is not known to this heapattach");
    }
    // Nothing is read there: a thread is found by what lies on the stack.
    Ok(Orders { runtime: marks.calls.start.get(), tells_apart: 1, ..row.orders })
}

pub(super) fn body(memory: &Memory, range: &Range<RemoteAddr>) -> Vec<u8> {
    let length = range.end.offset_from(range.start).unwrap_or(0).min(LONGEST_FUNCTION);
    memory.read_vec(range.start, usize::try_from(length).unwrap_or(0)).unwrap_or_default()
}

/// What a copy of code says: its function, its file, the line on which it begins, and how lines are told.
pub(super) fn function(copy: &[u8], orders: &Orders) -> Option<(String, String, u32, Form)> {
    let object = copy.get(..OBJECT_BYTES)?;
    let half = |at: u64| u32_at(object, usize::try_from(at).ok()?);
    let first_line = half(orders.identity).filter(|line| line.cast_signed() >= 0)?;
    let instructions = usize::try_from(half(orders.length)?).ok()?;
    let table = if orders.rows != 0 { Table::Differences } else { Table::Lines };
    let form = Form { instructions, table };
    let text = copy.get(FILE_AT..LENGTH_AT)?;
    // Code that was stripped of names and lines: Lua says so of its file, and nothing of where in it that is.
    let is_stripped = instructions == 0 && text.first() == Some(&0);
    let file = if is_stripped { "?".to_owned() } else { file(text, |&letter| letter == b'\n')? };
    let function = match first_line {
        0 => MAIN.to_owned(),
        line => format!("function <{}:{line}>", file.rsplit('/').next().unwrap_or_default()),
    };
    let first_line = if is_stripped { 0 } else { first_line };
    Some((function, file, first_line, form))
}

/// Where code is from: a file, or a name that the program chose, or the text itself up to such a letter.
pub(super) fn file(copy: &[u8], is_end: impl Fn(&u8) -> bool) -> Option<String> {
    let told = copy.split(|&byte| byte == 0).next()?;
    let is_cut = told.len() == copy.len();
    match told.first() {
        Some(b'@' | b'=') => {
            if told.iter().any(u8::is_ascii_control) {
                return None;
            }
            let mut text = String::from_utf8_lossy(&told[1..]).into_owned();
            if is_cut {
                text.push('\u{2026}');
            }
            Some(text)
        }
        _ => {
            let line = told.split(is_end).next().unwrap_or_default();
            let is_whole = line.len() == told.len() && line.len() < LETTERS && !is_cut;
            let letters = String::from_utf8_lossy(&line[..line.len().min(LETTERS)]);
            Some(format!("[string \"{letters}{}\"]", if is_whole { "" } else { "..." }))
        }
    }
}

#[cfg(test)]
mod tests {
    use heapattach_abi::python::LINES_AT;
    use proptest::prelude::*;

    use super::*;

    fn of_5_4() -> Orders {
        ROWS[3].orders
    }

    fn copy(line: u32, source: &str) -> Vec<u8> {
        let mut copy = vec![0; LINES_AT];
        copy[28..32].copy_from_slice(&7_u32.to_le_bytes());
        copy[44..48].copy_from_slice(&line.to_le_bytes());
        copy[FILE_AT..FILE_AT + source.len()].copy_from_slice(source.as_bytes());
        copy
    }

    #[test]
    fn a_copy_says_where_a_function_is() {
        let told = |line, source| {
            function(&copy(line, source), &of_5_4()).map(|(function, file, ..)| (function, file))
        };
        let both = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(told(7, "@/srv/app.lua"), both("function <app.lua:7>", "/srv/app.lua"));
        assert_eq!(told(0, "@app.lua"), both(MAIN, "app.lua"));
        assert_eq!(told(0, "=stdin"), both(MAIN, "stdin"));
        assert_eq!(told(0, "return 1"), both(MAIN, "[string \"return 1\"]"));
        assert_eq!(told(0, "f()\ng()"), both(MAIN, "[string \"f()...\"]"));
        assert_eq!(told(u32::MAX, "@a"), None);
        assert_eq!(told(1, "@a\u{1b}"), None);
        // Without lines and a file; one with lines whose text is empty.
        let mut stripped = copy(3, "");
        let empty = function(&stripped, &of_5_4()).map(|(function, ..)| function);
        assert_eq!(empty.as_deref(), Some("function <[string \"\"]:3>"));
        stripped[28..32].fill(0);
        let (function, file, first_line, _) = function(&stripped, &of_5_4()).unwrap();
        assert_eq!((&*function, &*file, first_line), ("function <?:3>", "?", 0));
    }

    #[test]
    fn a_version_is_read_as_every_version_writes_it() {
        for (told, expected) in [
            ("$Lua: Lua 5.1.5 Copyright (C)", Some((1, 5))),
            ("$Lua: Lua 5.1 Copyright (C)", Some((1, 0))),
            ("$LuaVersion: Lua 5.4.4  Copyright (C)", Some((4, 4))),
            ("$LuaVersion: Lua 6.0.0", None),
            ("", None),
        ] {
            assert_eq!(version(told.as_bytes()), expected, "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_copy_is_survived(at in 0..LENGTH_AT, bytes: [u8; 8], cut in 0..=LENGTH_AT) {
            let mut copy = copy(7, "@/srv/app.lua");
            let end = (at + 8).min(copy.len());
            copy[at..end].copy_from_slice(&bytes[..end - at]);
            copy.truncate(cut);
            let _ = function(&copy, &of_5_4());
        }
    }
}
