//! Ruby's virtual machine in a target: which version, where its things are, and what a copy of a function says.
//!
//! It has no table of its structures, so there is one here ([`ROWS`]). A row counts only if the machine's own
//! functions, which it exports, read what they read at these places.

use std::ops::Range;

use heapattach_abi::python::{FILE_AT, LENGTH_AT, NAME_AT, OBJECT_BYTES, Orders, RUBY_HEAD_BYTES};

use heapattach_process::{
    addr::RemoteAddr, little_endian::u64_at, memory::Memory, proc::maps::Mapping,
};

use super::{
    interpreter::Found,
    ruby_loop,
    ruby_rows::{ROWS, Row, State},
};
use crate::{arch, module::ruby_marks::RubyMarks};

/// In what is known of code: how many instructions there are.
const LENGTH: u64 = 4;
const LONGEST_VERSION: usize = 16;
const LONGEST_FUNCTION: u64 = 1 << 12;
/// Bytes of what says where the variables of a thread are: whose, and how far on.
const VARIABLES_BYTES: u64 = 16;
const MOST_MODULES: u64 = 1 << 16;
const MOST_VARIABLES: u64 = 1 << 20;

/// What the head of an object says: what it is, whether a text's bytes lie elsewhere, else how many there are.
const KIND: u64 = 0x1f;
const TEXT: u64 = 5;
const ELSEWHERE: u64 = 1 << 13;
const LENGTH_SHIFT: u32 = 14;
const TEXT_LENGTH: usize = 16;
const TEXT_BYTES: usize = 16;

/// The machine that these symbols are of.
pub(super) fn recognise(
    marks: &RubyMarks,
    memory: &Memory,
    maps: &[Mapping<'_>],
) -> Option<(Found, Range<RemoteAddr>)> {
    if marks.version.is_none() || marks.reads_state.is_empty() {
        return None;
    }
    let version = marks.version.and_then(|at| version(memory, at));
    let row = ROWS
        .iter()
        .find(|row| version.as_ref().is_some_and(|version| version.starts_with(row.version)));
    let is_musl = maps
        .iter()
        .any(|map| map.label().as_encoded_bytes().windows(7).any(|letters| letters == b"ld-musl"));
    let known = row.filter(|_| marks.loop_body.is_empty());
    let found = known.and_then(|_| ruby_loop::loop_of(memory, maps, marks.reads_state.start));
    let eval = found.unwrap_or_else(|| marks.loop_body.clone());
    let orders = match row {
        None => Err("its structures are not known to this heapattach (2.7 and 3.0 to 3.4 are)"),
        Some(_) if is_musl => {
            Err("where threads have their variables is known of glibc alone, and this is musl")
        }
        Some(_) if eval.is_empty() => Err("where its loop is, is not known to this heapattach"),
        Some(row) => checked(marks, memory, row, eval.start),
    };
    let version = version.unwrap_or_else(|| "of an unknown version".to_owned());
    Some((Found { version, orders }, eval))
}

fn version(memory: &Memory, at: RemoteAddr) -> Option<String> {
    let bytes = memory.read_vec(at, LONGEST_VERSION).ok()?;
    let told = bytes.split(|&byte| byte == 0).next()?;
    let is_version = !told.is_empty() && told.len() < LONGEST_VERSION;
    let is_one = told.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
    (is_version && is_one).then(|| String::from_utf8_lossy(told).into_owned())
}

const NO_STATE: &str = "where it has the state of a thread is not known to this heapattach";

/// The orders of a version, if the machine's own functions read what they read at these places.
fn checked(
    marks: &RubyMarks,
    memory: &Memory,
    row: &Row,
    eval: RemoteAddr,
) -> Result<Orders, &'static str> {
    const OTHER: &str = "its functions read frames in a way that is not known to this heapattach";
    let reads = |range: &Range<RemoteAddr>, places: &[u64]| {
        let told = arch::read_distances(&body(memory, range), range.start);
        places.iter().all(|place| told.contains(place))
    };
    let Row { current, frame, flags_at, body: behind, file, name, first_line, extent, .. } = *row;
    let [of_name, of_file, of_line, of_extent, of_rows] = &marks.reads_code;
    let state = &marks.reads_state;
    // Later versions do not export the function that goes from frame to frame: the other one does so itself.
    let frames = if marks.reads_frames.is_empty() { state } else { &marks.reads_frames };
    let is_known = reads(frames, &[0, 8, flags_at])
        && arch::constants_added(&body(memory, frames), frames.start).contains(&frame)
        && reads(state, &[current])
        && reads(of_name, &[behind, name])
        && reads(of_file, &[behind, file])
        && reads(of_line, &[behind, first_line])
        && reads(of_extent, &[behind, extent])
        && reads(of_rows, &[behind, row.rows, row.index, LENGTH]);
    if !is_known {
        return Err(OTHER);
    }
    match row.state {
        State::OfProcess { thread, .. } if !reads(&marks.reads_thread, &[thread]) => Err(OTHER),
        State::OfProcess { thread, pointer } => of_process(marks, memory).map(|runtime| Orders {
            runtime: runtime.get(),
            threads: thread,
            thread_pointer: pointer,
            ..orders(row)
        }),
        State::OfThread => of_thread(marks, memory).map(|(module, variable)| Orders {
            // Nothing is read there: what is there of a thread, its variables lead to.
            runtime: eval.get(),
            variables: module * VARIABLES_BYTES,
            variable,
            ..orders(row)
        }),
    }
}

/// The variable of the process that leads to the state of the thread that runs scripts: the one that is exported as
/// such must be the one that the machine's own function reads.
fn of_process(marks: &RubyMarks, memory: &Memory) -> Result<RemoteAddr, &'static str> {
    let state = &marks.reads_state;
    let anywhere = RemoteAddr::new(1)..RemoteAddr::new(u64::MAX);
    let read = arch::first_read_in(&body(memory, state), state.start, &anywhere);
    let variable = marks.state.filter(|variable| {
        // A library reads where it is before it reads it.
        read.is_some_and(|at| at == *variable || memory.word(at) == Ok(variable.get()))
    });
    variable.ok_or(NO_STATE)
}

/// Whose variables lead to the state of a thread, and how far on.
fn of_thread(marks: &RubyMarks, memory: &Memory) -> Result<(u64, u64), &'static str> {
    let state = &marks.reads_state;
    let asks = arch::first_address_taken(&body(memory, state), state.start);
    // Where the variables of the module begin is asked for, or where this one lies: it is read right away.
    let within = arch::read_distances(&body(memory, state), state.start).first().copied();
    let said = asks.zip(within).and_then(|(at, within)| {
        let offset = memory.word(at.checked_add(8)?).ok()?;
        Some((memory.word(at).ok()?, offset.checked_add(within)?))
    });
    match said {
        Some((module, offset))
            if (1..MOST_MODULES).contains(&module) && offset < MOST_VARIABLES =>
        {
            Ok((module, offset))
        }
        _ => Err(NO_STATE),
    }
}

/// What does not depend on where the state of a thread is.
fn orders(row: &Row) -> Orders {
    Orders {
        current: row.current,
        stride: row.frame,
        code: 16,
        body: row.body,
        instruction: 0,
        mark: row.flags_at,
        // The loop was called for it; it is no script's.
        mark_mask: 0x20,
        foreign: 0x80,
        instructions: 8,
        name: row.name,
        file: row.file,
        identity: row.extent,
        tells_apart: 1,
        lines: row.lines,
        length: row.row,
        rows: row.rows,
        index: row.index,
        ..Orders::default()
    }
}

fn body(memory: &Memory, range: &Range<RemoteAddr>) -> Vec<u8> {
    let length = range.end.offset_from(range.start).unwrap_or(0).min(LONGEST_FUNCTION);
    memory.read_vec(range.start, usize::try_from(length).unwrap_or(0)).unwrap_or_default()
}

/// What a copy of a function says: its name, its file, the line on which it begins, and of its table of lines
/// how many rows it has, and the bytes of one.
pub(super) fn function(
    copy: &[u8],
    orders: &Orders,
) -> Option<(String, String, u32, (usize, usize))> {
    let is_own = |row: &&Row| (row.frame, row.rows) == (orders.stride, orders.rows);
    let row = ROWS.iter().find(is_own)?;
    let object = copy.get(..OBJECT_BYTES)?;
    let word = |at: u64| u64_at(object, usize::try_from(at).ok()?);
    let name = text(copy.get(NAME_AT..FILE_AT)?, row)?;
    let file = text(copy.get(FILE_AT..LENGTH_AT)?, row)?;
    let first = word(row.first_line)?;
    // A number, and a bit that says so; or half a word.
    let first = if row.is_tagged { first >> 1 } else { first & u64::from(u32::MAX) };
    let first = u32::try_from(first).unwrap_or(0);
    let rows = usize::try_from(word(row.rows)? & u64::from(u32::MAX)).ok()?;
    Some((name, file, first, (rows, usize::try_from(orders.length).ok()?)))
}

/// A text; `None` if its head does not say that it is one.
fn text(copy: &[u8], row: &Row) -> Option<String> {
    let head = u64_at(copy, 0).filter(|head| head & KIND == TEXT)?;
    let (length, bytes) = if row.has_length || head & ELSEWHERE != 0 {
        (u64_at(copy, TEXT_LENGTH)?, copy.get(RUBY_HEAD_BYTES..)?)
    } else {
        (head >> LENGTH_SHIFT & KIND, copy.get(TEXT_BYTES..RUBY_HEAD_BYTES)?)
    };
    let length = usize::try_from(length).ok().filter(|length| *length != 0)?;
    let mut text = String::from_utf8_lossy(&bytes[..length.min(bytes.len())]).into_owned();
    if length > bytes.len() {
        text.push('\u{2026}');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(text: &str, room: usize) -> Vec<u8> {
        let mut copy = vec![0; RUBY_HEAD_BYTES];
        if text.len() < 24 {
            copy[..8].copy_from_slice(&(TEXT | (text.len() as u64) << LENGTH_SHIFT).to_le_bytes());
            copy[16..16 + text.len()].copy_from_slice(text.as_bytes());
        } else {
            copy[..8].copy_from_slice(&(TEXT | ELSEWHERE).to_le_bytes());
            copy[16..24].copy_from_slice(&(text.len() as u64).to_le_bytes());
            copy.extend(text.bytes());
        }
        copy.resize(room, 0);
        copy
    }

    fn copy(name: &str) -> Vec<u8> {
        let mut copy = vec![0; OBJECT_BYTES];
        copy[88] = 7 << 1 | 1;
        copy[136] = 3;
        copy.extend(string(name, FILE_AT - NAME_AT));
        copy.extend(string("/srv/application/lib/cache.rb", LENGTH_AT - FILE_AT));
        copy.resize(heapattach_abi::python::LINES_AT, 0);
        copy
    }

    fn function(copy: &[u8]) -> Option<(String, String, u32, (usize, usize))> {
        let orders = orders(&ROWS[2]);
        super::function(copy, &orders)
    }

    /// From 3.3 on: each text with its length, and its bytes behind the head.
    #[test]
    fn a_copy_of_a_later_version_says_the_same() {
        let string = |text: &str, room: usize| {
            let mut copy = vec![0; RUBY_HEAD_BYTES];
            copy[..8].copy_from_slice(&TEXT.to_le_bytes());
            copy[16..24].copy_from_slice(&(text.len() as u64).to_le_bytes());
            copy.extend(text.bytes());
            copy.resize(room, 0);
            copy
        };
        let mut copy = vec![0; OBJECT_BYTES];
        copy[88] = 7;
        copy[92] = 9;
        copy[128] = 3;
        copy.extend(string("block in add", FILE_AT - NAME_AT));
        copy.extend(string("/srv/cache.rb", LENGTH_AT - FILE_AT));
        copy.resize(heapattach_abi::python::LINES_AT, 0);
        let orders = orders(&ROWS[4]);
        let told = super::function(&copy, &orders);
        assert_eq!(told, Some(("block in add".to_owned(), "/srv/cache.rb".to_owned(), 7, (3, 12))));
        let other = Orders { stride: 48, ..orders };
        assert_eq!(super::function(&copy, &other), None);
    }

    #[test]
    fn a_copy_says_what_a_function_is_called_and_where_it_is() {
        let (name, file, line, rows) = function(&copy("block in add")).unwrap();
        assert_eq!((&*name, &*file), ("block in add", "/srv/application/lib/cache.rb"));
        assert_eq!((line, rows), (7, (3, 12)));
        let long = "block in a_name_that_finds_no_room_in_its_head";
        assert_eq!(function(&copy(long)).unwrap().0, long);
        let longer = "n".repeat(400);
        assert!(function(&copy(&longer)).unwrap().0.ends_with("nn\u{2026}"));
    }

    #[test]
    fn what_is_no_text_is_no_function() {
        let mut other = copy("f");
        other[FILE_AT] = 7;
        assert_eq!(function(&other), None);
        for cut in [0, 8, NAME_AT, FILE_AT + 3, FILE_AT + 20] {
            assert_eq!(function(&copy("f")[..cut]), None, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_copy_is_survived(at in 0..LENGTH_AT, bytes: [u8; 8], cut in 0..=LENGTH_AT) {
            let mut copy = copy("block in a_name_that_finds_no_room_in_its_head");
            let end = (at + 8).min(copy.len());
            copy[at..end].copy_from_slice(&bytes[..end - at]);
            copy.truncate(cut);
            let _ = function(&copy);
        }
    }
}
