//! LuaJIT in a target: where the code of its machine is, and whether its structures are those that are known.
//!
//! They are known of 2.1 where references have 64 bits. Functions that the library exports must read what they read at
//! these places.

use std::ops::Range;

use heapattach_abi::{
    luajit::{BASE, BYTECODE, CODE_BYTES, FILE, KIND, LINES_OF_IT, STACK, TOP, line_shift},
    python::{FILE_AT, LENGTH_AT, OBJECT_BYTES, Orders},
};
use heapattach_process::{
    addr::RemoteAddr,
    image::{Image, images},
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::maps::Mapping,
};

use super::{
    cold_part,
    interpreter::Found,
    lua::{MAIN, body, file},
    lua_lines::{Form, Table},
};
use crate::{arch, module::lua_marks::LuaMarks};

/// The machine is one function to the table for unwinding, never shorter nor longer.
const LENGTHS: Range<u64> = 8 << 10..64 << 10;
/// In a thread: what all of them have in common.
const COMMON: u64 = 16;
/// Code that tells what is known of a function is not longer.
const LONGEST: u64 = 1 << 11;
/// What it calls itself, and how much of a library is looked through for that.
const NAME: &[u8] = b"LuaJIT 2.";
const LONGEST_RELEASE: usize = 24;
const LOOKED_THROUGH: u64 = 1 << 22;

/// The library that these symbols are of, and the code of its machine.
pub(super) fn recognise(
    marks: &LuaMarks,
    memory: &Memory,
    maps: &[Mapping<'_>],
) -> Option<(Found, Range<RemoteAddr>)> {
    if marks.sets_mode.is_empty() {
        return None;
    }
    let nowhere = RemoteAddr::new(0)..RemoteAddr::new(0);
    let machine = machine_of(memory, maps, &marks.calls);
    let orders = match &machine {
        None => Err("where the code of its machine is, is not known to this heapattach"),
        Some(_) if !is_known(marks, memory) => {
            Err("its structures are not known to this heapattach (those of LuaJIT 2.1 with \
                 references of 64 bits are)")
        }
        Some(code) => Ok(Orders {
            // Nothing is read there.
            runtime: code.start.get(),
            tells_apart: 1,
            machine: code.start.get(),
            machine_bytes: code.end.offset_from(code.start).unwrap_or(0),
            ..Orders::default()
        }),
    };
    let name = name(memory, maps, marks.sets_mode.start).unwrap_or_else(|| "LuaJIT".to_owned());
    Some((Found { version: name, orders }, machine.unwrap_or(nowhere)))
}

/// Where the machine lies: a function that calls one of a script goes on in the middle of it.
fn machine_of(
    memory: &Memory,
    maps: &[Mapping<'_>],
    calls: &Range<RemoteAddr>,
) -> Option<Range<RemoteAddr>> {
    let images = images(memory, maps);
    let image: &Image = images.iter().find(|image| image.code.contains(&calls.start))?;
    let table = cold_part::Table::read(memory, image.mapped?)?;
    let targets = arch::led_to(&body(memory, calls), calls.start);
    let mut parts = targets.into_iter().filter_map(|target| {
        let part = table.containing(memory, target)?;
        let length = part.end.offset_from(part.start)?;
        let is_within = image.code.contains(&part.start) && part.end <= image.code.end;
        (is_within && part.start != target && LENGTHS.contains(&length)).then_some(part)
    });
    // The last call: others copy what is called and its arguments.
    parts.next_back()
}

/// Whether the library's own functions read what they read at these places.
fn is_known(marks: &LuaMarks, memory: &Memory) -> bool {
    let reads = |range: &Range<RemoteAddr>, places: &[u64]| {
        let told = arch::read_distances(&body(memory, range), range.start);
        places.iter().all(|place| told.contains(place))
    };
    let of_code = |at: u64| at.wrapping_sub(CODE_BYTES);
    // What is known of a function is told by one that the exported one goes on with.
    let tells = &marks.tells_functions;
    let told = arch::led_to(&body(memory, tells), tells.start).into_iter();
    let mut told = told.map(|at| at..at.checked_add(LONGEST).unwrap_or(at));
    reads(&marks.sets_mode, &[COMMON, BASE])
        && reads(&marks.reads_values, &[TOP])
        && told.any(|range| reads(&range, &[STACK, BYTECODE, of_code(FILE), of_code(LINES_OF_IT)]))
}

/// What the library calls itself.
fn name(memory: &Memory, maps: &[Mapping<'_>], inside: RemoteAddr) -> Option<String> {
    let images = images(memory, maps);
    let code = &images.iter().find(|image| image.code.contains(&inside))?.code;
    // What is only read lies behind the code.
    let place = &maps.iter().find(|map| map.readable && map.range.start >= code.end)?.range;
    let length = place.end.offset_from(place.start)?.min(LOOKED_THROUGH);
    let text = memory.read_vec(place.start, usize::try_from(length).ok()?).ok()?;
    let at = text.windows(NAME.len()).position(|letters| letters == NAME)?;
    Some(first_name(text.get(at..)?))
}

/// A name and its release, without what may follow (`LuaJIT 2.1.0-beta3 -- Copyright ...`).
fn first_name(text: &[u8]) -> String {
    let release = text.get(NAME.len()..).unwrap_or_default().iter().take(LONGEST_RELEASE);
    let release = release.take_while(|letter| letter.is_ascii_graphic());
    NAME.iter().chain(release).map(|&letter| char::from(letter)).collect()
}

/// What a copy of code says: its function, its file, the line on which it begins, and how lines are told.
pub(super) fn function(copy: &[u8]) -> Option<(String, String, u32, Form)> {
    let object = copy.get(..OBJECT_BYTES)?;
    let at = |place: u64| usize::try_from(place).ok();
    let instructions = usize::try_from(u64_at(object, at(KIND)?)? >> 32).ok()?;
    let first_line = u32_at(object, at(LINES_OF_IT)?).filter(|line| line.cast_signed() >= 0)?;
    let lines = u32_at(object, at(LINES_OF_IT + 4)?)?;
    let file = file(copy.get(FILE_AT..LENGTH_AT)?, |letter| letter.is_ascii_control())?;
    // Code that was stripped of all names and lines has none either.
    let function = match first_line {
        0 if lines != 0 => MAIN.to_owned(),
        line => format!("function <{}:{line}>", file.rsplit('/').next().unwrap_or_default()),
    };
    let form = Form { instructions, table: Table::Distances(line_shift(lines)) };
    Some((function, file, first_line, form))
}

#[cfg(test)]
mod tests {
    use heapattach_abi::python::LINES_AT;
    use proptest::prelude::*;

    use super::*;

    fn copy(line: u32, lines: u32, source: &str) -> Vec<u8> {
        let mut copy = vec![0; LINES_AT];
        copy[12..16].copy_from_slice(&7_u32.to_le_bytes());
        copy[72..76].copy_from_slice(&line.to_le_bytes());
        copy[76..80].copy_from_slice(&lines.to_le_bytes());
        copy[FILE_AT..FILE_AT + source.len()].copy_from_slice(source.as_bytes());
        copy
    }

    #[test]
    fn a_copy_says_where_a_function_is() {
        let form = |shift| Form { instructions: 7, table: Table::Distances(shift) };
        let told = |line, lines, source| function(&copy(line, lines, source));
        let expected = ("function <app.lua:7>".to_owned(), "/srv/app.lua".to_owned(), 7, form(0));
        assert_eq!(told(7, 3, "@/srv/app.lua"), Some(expected));
        let expected = (MAIN.to_owned(), "app.lua".to_owned(), 0, form(1));
        assert_eq!(told(0, 300, "@app.lua"), Some(expected));
        let expected = ("function <?:0>".to_owned(), "?".to_owned(), 0, form(0));
        assert_eq!(told(0, 0, "=?"), Some(expected));
        let text = "[string \"a...\"]".to_owned();
        let expected = (format!("function <{text}:0>"), text, 0, form(0));
        assert_eq!(told(0, 0, "a\u{1b}LJ"), Some(expected));
        assert_eq!(told(u32::MAX, 3, "@a"), None);
        assert_eq!(told(1, 3, "@a\u{1b}"), None);
    }

    #[test]
    fn a_name_ends_with_its_release() {
        let told = |text: &str| first_name(text.as_bytes());
        assert_eq!(told("LuaJIT 2.1.0-beta3\0Lua 5.1"), "LuaJIT 2.1.0-beta3");
        assert_eq!(told("LuaJIT 2.1.1737090214 -- Copyright"), "LuaJIT 2.1.1737090214");
        assert_eq!(told("LuaJIT 2."), "LuaJIT 2.");
    }

    proptest! {
        #[test]
        fn any_copy_is_survived(at in 0..LENGTH_AT, bytes: [u8; 8], cut in 0..=LENGTH_AT) {
            let mut copy = copy(7, 3, "@/srv/app.lua");
            let end = (at + 8).min(copy.len());
            copy[at..end].copy_from_slice(&bytes[..end - at]);
            copy.truncate(cut);
            let _ = function(&copy);
        }
    }
}
