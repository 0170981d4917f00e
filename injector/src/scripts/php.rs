//! PHP's engine in a target: which version, where its things are, and what a copy of a function says.
//!
//! It has no table of its structures, so there is one here, for builds for 64 bits without threads. A row
//! counts only if the engine's own functions, which it exports, read what they read at these places.

use std::{ffi::OsStr, ops::Range};

use heapattach_abi::python::{FILE_AT, LENGTH_AT, NAME_AT, OBJECT_BYTES, Orders};

use heapattach_process::{
    addr::RemoteAddr,
    little_endian::u64_at,
    memory::Memory,
    proc::maps::{Mapping, covering},
};

use super::interpreter::Found;
use crate::{arch, module::php_marks::PhpMarks};

/// Where the parts differ between versions.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// What modules are built for.
    interface: &'static str,
    version: &'static str,
    /// In a function: its file, before the lines on which it begins and ends.
    file: u64,
}

const ROWS: [Row; 6] = [
    Row { interface: "20190902", version: "7.4", file: 136 },
    Row { interface: "20200930", version: "8.0", file: 144 },
    Row { interface: "20210902", version: "8.1", file: 144 },
    Row { interface: "20220829", version: "8.2", file: 152 },
    Row { interface: "20230831", version: "8.3", file: 144 },
    Row { interface: "20240924", version: "8.4", file: 168 },
];

/// What every build says of itself to modules: the number of the interface, and whether it has threads.
const INTERFACE: &[u8] = b"API20";
/// What it tells browsers.
const HEADER: &[u8] = b"X-Powered-By: PHP/";
/// Bytes of constants that are searched for these, and of a function.
const LONGEST: u64 = 1 << 25;
const LONGEST_FUNCTION: u64 = 1 << 12;
/// No global state is as large.
const GLOBALS: u64 = 1 << 13;

/// Where things are in a function: the same in all these versions.
const NAME: u64 = 8;
const CLASS: u64 = 16;
/// In a text: head, hash, length, bytes.
const TEXT_LENGTH: usize = 16;
const TEXT: usize = 24;
/// What the head of a text says that it is.
const IS_TEXT: u8 = 6;
/// Code of a file or of `eval`, in place of a name.
const MAIN: &str = "{main}";

/// The engine that these symbols are of.
pub(super) fn recognise(marks: &PhpMarks, memory: &Memory, maps: &[Mapping<'_>]) -> Option<Found> {
    if marks.loop_body.is_empty() {
        return None;
    }
    let constants = constants(memory, maps, marks.loop_body.start);
    let said = said_after(&constants, HEADER, |byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let interface = said_after(&constants, INTERFACE, |byte| byte.is_ascii_graphic());
    let (number, build) = interface.as_deref().and_then(|text| text.split_once(',')).unzip();
    let row = ROWS.iter().find(|row| number == row.interface.strip_prefix("20"));
    let version = said.or(row.map(|row| row.version.to_owned()));
    let orders = match (row, build, marks.globals) {
        (_, Some(build), _) if build.starts_with("TS") => {
            Err("it was built for threads (ZTS), where only builds without (NTS) are known")
        }
        (None, ..) => Err("its structures are not known to this heapattach (7.4 to 8.4 are)"),
        (_, _, None) => Err("it does not export executor_globals"),
        (Some(row), _, Some(globals)) => checked(marks, memory, row, globals),
    };
    Some(Found { version: version.unwrap_or_else(|| "of an unknown version".to_owned()), orders })
}

/// The orders of a version, if the engine's own functions read what they read at these places.
fn checked(
    marks: &PhpMarks,
    memory: &Memory,
    row: &Row,
    globals: RemoteAddr,
) -> Result<Orders, &'static str> {
    let code = |range: &Range<RemoteAddr>| (body(memory, range), range.start);
    let (reads_frame, frame_at) = code(&marks.reads_frame);
    let (reads_file, file_at) = code(&marks.reads_file);
    let state = globals..globals.checked_add(GLOBALS).unwrap_or(globals);
    let current = arch::first_read_in(&reads_frame, frame_at, &state);
    let current = current.and_then(|at| at.offset_from(globals)).filter(|at| at % 8 == 0);
    let is_in_file = arch::read_distances(&reads_file, file_at).contains(&row.file);
    match current {
        Some(current) if is_in_file => Ok(orders(globals, current, row.file)),
        _ => Err("its functions read frames in a way that is not known to this heapattach"),
    }
}

fn orders(globals: RemoteAddr, current: u64, file: u64) -> Orders {
    Orders {
        runtime: globals.get(),
        current,
        code: 24,
        previous: 48,
        instruction: 0,
        line: 24,
        // Flags of a call; the second one of the third byte: the loop was called for it.
        mark: 42,
        mark_mask: 2,
        foreign: 1,
        name: NAME,
        file,
        // The first line and the last one.
        identity: file + 8,
        tells_apart: 1,
        class: CLASS,
        class_name: 8,
        text_hash: 8,
        ..Orders::default()
    }
}

fn body(memory: &Memory, range: &Range<RemoteAddr>) -> Vec<u8> {
    let length = range.end.offset_from(range.start).unwrap_or(0).min(LONGEST_FUNCTION);
    memory.read_vec(range.start, usize::try_from(length).unwrap_or(0)).unwrap_or_default()
}

/// The constants of the module that has code here.
fn constants(memory: &Memory, maps: &[Mapping<'_>], code: RemoteAddr) -> Vec<u8> {
    let Some(own) = covering(maps, code) else { return Vec::new() };
    let is_own = |map: &&Mapping<'_>| {
        let is_constant = map.readable && !map.writable && !map.executable;
        (map.device, map.inode) == (own.device, own.inode)
            && map.label() != OsStr::new("")
            && is_constant
    };
    let mut constants = Vec::new();
    for map in maps.iter().filter(is_own) {
        let length = map.range.end.offset_from(map.range.start).unwrap_or(0);
        let left = LONGEST.saturating_sub(constants.len() as u64);
        let length = usize::try_from(length.min(left)).unwrap_or(0);
        constants.extend(memory.read_vec(map.range.start, length).unwrap_or_default());
    }
    constants
}

/// The text behind the first such mark, as long as its bytes are like that.
fn said_after(constants: &[u8], mark: &[u8], is_like: impl Fn(u8) -> bool) -> Option<String> {
    let at = constants.windows(mark.len()).position(|bytes| bytes == mark)? + mark.len();
    let text = constants.get(at..)?.iter().take(40).take_while(|byte| is_like(**byte));
    let text: Vec<u8> = text.copied().collect();
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

/// What a copy of a function says: its name with its class, its file, and the line on which it begins.
pub(super) fn function(
    copy: &[u8],
    class: &[u8],
    layout: &Orders,
) -> Option<(String, String, u32)> {
    let object = copy.get(..OBJECT_BYTES)?;
    let word = |at: u64| u64_at(object, usize::try_from(at).ok()?);
    let file = text(copy.get(FILE_AT..LENGTH_AT)?)?;
    let name = match word(NAME)? {
        0 => MAIN.to_owned(),
        _ => text(copy.get(NAME_AT..FILE_AT)?)?,
    };
    let is_of_class = word(CLASS)? != 0 && name != MAIN;
    let name = match text(class).filter(|_| is_of_class) {
        Some(class) => format!("{class}::{name}"),
        None => name,
    };
    let first = u32::try_from(word(layout.identity)? & u64::from(u32::MAX)).ok()?;
    Some((name, file, first))
}

/// A text of the engine; `None` if its head does not say that it is one.
fn text(copy: &[u8]) -> Option<String> {
    let kind = *copy.get(4)? & 0xf;
    let length = usize::try_from(u64_at(copy, TEXT_LENGTH)?).ok()?;
    let bytes = copy.get(TEXT..)?;
    if kind != IS_TEXT || length == 0 {
        return None;
    }
    let told = &bytes[..length.min(bytes.len())];
    // A class without a name has one, a zero byte and where it is.
    let told = told.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut text = String::from_utf8_lossy(told).into_owned();
    if length > bytes.len() && told.len() == bytes.len() {
        text.push('\u{2026}');
    }
    Some(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Orders for other tests.
    pub fn of_8_2() -> Orders {
        orders(RemoteAddr::new(0x58_ae60), 488, 152)
    }

    fn string(text: &str, room: usize) -> Vec<u8> {
        let mut copy = vec![1, 0, 0, 0, 0x56, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9];
        copy.extend((text.len() as u64).to_le_bytes());
        copy.extend(text.bytes());
        copy.resize(room, 0);
        copy
    }

    /// A copy as the payload makes one.
    pub fn copy(name: &str, class: u64) -> Vec<u8> {
        let mut copy = vec![0; OBJECT_BYTES];
        copy[0] = 2;
        copy[8] = u8::from(!name.is_empty());
        copy[16..24].copy_from_slice(&class.to_le_bytes());
        copy[160] = 7;
        copy[164] = 9;
        copy.extend(string(name, FILE_AT - NAME_AT));
        copy.extend(string("/srv/app.php", LENGTH_AT - FILE_AT));
        copy.resize(heapattach_abi::python::LINES_AT, 0);
        copy
    }

    #[test]
    fn a_copy_says_what_a_function_is_called_and_where_it_is() {
        let told = |name: &str, class: u64, of: &str| {
            function(&copy(name, class), &string(of, 256), &of_8_2()).map(|(name, ..)| name)
        };
        assert_eq!(told("add", 1, "App\\Cache").as_deref(), Some("App\\Cache::add"));
        assert_eq!(told("add", 0, "App\\Cache").as_deref(), Some("add"));
        assert_eq!(told("", 1, "App\\Cache").as_deref(), Some(MAIN));
        assert_eq!(told("f", 1, "class@anonymous\0/a.php").as_deref(), Some("class@anonymous::f"));
        let (_, file, line) = function(&copy("f", 0), &[], &of_8_2()).unwrap();
        assert_eq!((&*file, line), ("/srv/app.php", 7));
    }

    #[test]
    fn what_is_no_text_is_no_function() {
        let mut copy = copy("f", 0);
        copy[FILE_AT + 4] = 7;
        assert_eq!(function(&copy, &[], &of_8_2()), None);
        for cut in [0, 8, NAME_AT, FILE_AT + 3, FILE_AT + 20] {
            assert_eq!(function(&copy[..cut], &[], &of_8_2()), None, "{cut}");
        }
    }

    #[test]
    fn a_version_is_found_among_constants() {
        let constants = b"\0API20220829,NTS\0X-Powered-By: PHP/8.2.36\0";
        let like = |byte: u8| byte.is_ascii_graphic();
        assert_eq!(said_after(constants, HEADER, like).as_deref(), Some("8.2.36"));
        assert_eq!(said_after(constants, INTERFACE, like).as_deref(), Some("220829,NTS"));
        assert_eq!(said_after(b"API20", INTERFACE, like), None);
    }
}
