//! Perl's interpreter in a target: which version, where its things are, and what a copy of a statement says.
//!
//! It has no table of its structures, so there is one here, of what its headers say:
//!
//! ```c
//! #include "EXTERN.h"
//! #include "perl.h" /* cc $(perl -MExtUtils::Embed -e ccopts) */
//! int main(void) { /* sizeof, and where */
//!     struct interpreter *perl = 0;
//!     return printf("%zu %zu %zu\n", sizeof *perl, (size_t)&perl->Icurstackinfo, (size_t)&perl->Icurcop) +
//!         printf("%d\n", OP_REQUIRE);
//! }
//! ```
//!
//! A row counts only if an interpreter is as large as that, and its own functions, which it exports, read what
//! they read at these places.

use std::ops::Range;

use heapattach_abi::python::{
    FILE_AT, LENGTH_AT, NAME_AT, NAME_BYTES, Orders, PERL_EVAL, PERL_FILE, PERL_REQUIRED, PERL_SORT,
};

use heapattach_process::{
    addr::RemoteAddr,
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::maps::Mapping,
};

use super::interpreter::Found;
use crate::{arch, hook::survey::Survey, module::perl_marks::PerlMarks};

/// Where the parts differ between versions, of builds with threads for 64 bits.
#[derive(Clone, Copy, Debug)]
struct Row {
    version: [u8; 2],
    /// Bytes of an interpreter.
    size: u64,
    /// In it: the innermost stack of contexts, and the statement that runs.
    current: u64,
    statement: u64,
    /// The number of the operation `require`; those of files and texts come soon after it.
    requires: u64,
}

const ROWS: [Row; 2] = [
    Row { version: [5, 36], size: 3768, current: 224, statement: 208, requires: 342 },
    Row { version: [5, 40], size: 3768, current: 224, statement: 208, requires: 345 },
];

/// In a stack of contexts: the first one, the stack around it, the number of the last one.
const OF_STACK: [u64; 3] = [8, 16, 32];
/// In a statement: its line and its file.
const OF_STATEMENT: [u64; 2] = [36, 48];
/// In what a function leads to: its entry in the table of symbols.
const OF_FUNCTION: u64 = 56;
const LONGEST_FUNCTION: u64 = 1 << 12;

/// How glibc finds what a thread knows by a number: in pairs of words, so many of which lie before the first,
/// and of so many of which there is room beside its own things.
const PAIRS_BEFORE: u64 = 0x31;
const PAIRS: u64 = 32;
const PAIR: u64 = 16;

/// Code of a file, in place of a name, and what is evaluated.
const MAIN: &str = "(main)";

/// The interpreter that these symbols are of.
pub(super) fn recognise(
    marks: &PerlMarks,
    survey: &Survey,
    memory: &Memory,
    maps: &[Mapping<'_>],
) -> Option<Found> {
    let version = version(marks, memory);
    if marks.loop_body.is_empty() || version[0].is_none() {
        return None;
    }
    let is_musl = maps
        .iter()
        .any(|map| map.label().as_encoded_bytes().windows(7).any(|letters| letters == b"ld-musl"));
    let row = ROWS.iter().find(|row| version[..2] == row.version.map(Some));
    let orders = match (row, marks.thread_key) {
        (None, _) => Err("its structures are not known to this heapattach (5.36 and 5.40 are)"),
        (_, None) => Err("it was built without threads, where only builds with threads are known"),
        _ if is_musl => {
            Err("where threads have their own is known of glibc alone, and this is musl")
        }
        (Some(row), Some(key)) => checked(marks, survey, memory, row, key),
    };
    let told: Vec<String> = version.iter().flatten().map(u8::to_string).collect();
    Some(Found { version: told.join("."), orders })
}

fn version(marks: &PerlMarks, memory: &Memory) -> [Option<u8>; 3] {
    marks.version.map(|at| memory.read_vec(at?, 1).ok()?.first().copied())
}

/// The orders of a version, if the interpreter's own functions read what they read at these places.
fn checked(
    marks: &PerlMarks,
    survey: &Survey,
    memory: &Memory,
    row: &Row,
    key: RemoteAddr,
) -> Result<Orders, &'static str> {
    let reads = |range: &Range<RemoteAddr>, places: &[u64]| {
        let told = arch::read_distances(&body(memory, range), range.start);
        places.iter().all(|place| told.contains(place))
    };
    let size = marks.interpreter_size.and_then(|at| memory.read_vec(at, 2).ok());
    let size = size.and_then(|bytes| Some(u64::from(u16::from_le_bytes(*bytes.first_chunk()?))));
    if size != Some(row.size) {
        return Err(
            "its interpreter is not as large as in Debian's build: it was built in another way",
        );
    }
    let [first, around, last] = OF_STACK;
    let is_known = reads(&marks.reads_contexts, &[row.current, first, around, last])
        && reads(&marks.reads_statement, &[row.statement])
        && reads(&marks.reads_statement, &OF_STATEMENT)
        && reads(&marks.reads_name, &[OF_FUNCTION]);
    if !is_known {
        return Err("its functions read contexts in a way that is not known to this heapattach");
    }
    let own = memory.read_vec(key, 4).ok().and_then(|bytes| u32_at(&bytes, 0)).map(u64::from);
    let finds = |range: &Range<RemoteAddr>| {
        !range.is_empty()
            && arch::constants_added(&body(memory, range), range.start).contains(&PAIRS_BEFORE)
    };
    let is_glibc = survey.loaded.iter().any(|loaded| finds(&loaded.module.perl.reads_thread));
    match own {
        Some(own) if own < PAIRS && is_glibc => Ok(orders(row, marks.loop_body.start, own)),
        _ => Err("where a thread has its interpreter is not known to this heapattach"),
    }
}

fn orders(row: &Row, runtime: RemoteAddr, key: u64) -> Orders {
    Orders {
        // Nothing is read there: what is there of a thread, its own things lead to.
        runtime: runtime.get(),
        variable: (PAIRS_BEFORE + key) * PAIR + 8,
        current: row.current,
        statement: row.statement,
        mark: row.requires,
        tells_apart: 1,
        ..Orders::default()
    }
}

fn body(memory: &Memory, range: &Range<RemoteAddr>) -> Vec<u8> {
    let length = range.end.offset_from(range.start).unwrap_or(0).min(LONGEST_FUNCTION);
    memory.read_vec(range.start, usize::try_from(length).unwrap_or(0)).unwrap_or_default()
}

/// What a copy of a statement says: the function with its package, and the file.
pub(super) fn function(copy: &[u8], package: &[u8]) -> Option<(String, String)> {
    let file = file(copy.get(FILE_AT..LENGTH_AT)?)?;
    let name = match u64_at(copy, 0)? {
        0 => {
            let name = name(copy.get(NAME_AT..FILE_AT)?)?;
            let package = self::name(package);
            package.map_or(name.clone(), |package| format!("{package}::{name}"))
        }
        PERL_FILE => MAIN.to_owned(),
        PERL_EVAL => "(eval)".to_owned(),
        PERL_REQUIRED => "(require)".to_owned(),
        PERL_SORT => "(sort)".to_owned(),
        _ => return None,
    };
    Some((name, file))
}

/// A name of the table of symbols: a hash, its length, its bytes.
fn name(copy: &[u8]) -> Option<String> {
    let length = usize::try_from(u32_at(copy, 4)?).ok()?;
    let bytes = copy.get(8..NAME_BYTES.min(copy.len()))?;
    // Those of variables that the interpreter itself has begin with a control character.
    let told = bytes.get(..length.min(bytes.len()))?;
    if told.is_empty() || told.contains(&0) {
        return None;
    }
    let mut text = String::from_utf8_lossy(told).into_owned();
    if length > bytes.len() {
        text.push('\u{2026}');
    }
    Some(text)
}

/// The name of a file, which a zero ends.
fn file(copy: &[u8]) -> Option<String> {
    let told = copy.split(|&byte| byte == 0).next()?;
    if told.iter().any(u8::is_ascii_control) {
        return None;
    }
    let mut text = String::from_utf8_lossy(told).into_owned();
    if told.len() == copy.len() {
        text.push('\u{2026}');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use heapattach_abi::python::LINES_AT;
    use proptest::prelude::*;

    use super::*;

    fn hek(text: &str, room: usize) -> Vec<u8> {
        let mut copy = vec![7, 7, 7, 7];
        copy.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        copy.extend(text.bytes());
        copy.resize(room, 0);
        copy
    }

    fn copy(kind: u64, name: &str, file: &str) -> Vec<u8> {
        let mut copy = kind.to_le_bytes().to_vec();
        copy.resize(NAME_AT, 0);
        copy.extend(hek(name, FILE_AT - NAME_AT));
        copy.extend(file.bytes());
        copy.resize(LINES_AT, 0);
        copy
    }

    #[test]
    fn a_copy_says_what_a_function_is_called_and_where_it_is() {
        let told = |kind, name, package| {
            function(&copy(kind, name, "/srv/app.pl"), package).map(|(name, _)| name)
        };
        let package = hek("App::Cache", NAME_BYTES);
        assert_eq!(told(0, "add", &package).as_deref(), Some("App::Cache::add"));
        assert_eq!(told(0, "add", &[]).as_deref(), Some("add"));
        assert_eq!(told(PERL_FILE, "", &[]).as_deref(), Some("(main)"));
        assert_eq!(told(PERL_EVAL, "", &package).as_deref(), Some("(eval)"));
        assert_eq!(told(9, "add", &package), None);
        assert_eq!(told(0, "", &package), None);
        assert_eq!(function(&copy(1, "", "(eval 7)"), &[]).unwrap().1, "(eval 7)");
        assert_eq!(function(&copy(1, "", "a\u{1b}"), &[]), None);
    }

    proptest! {
        #[test]
        fn any_copy_is_survived(at in 0..LENGTH_AT, bytes: [u8; 8], cut in 0..=LENGTH_AT) {
            let mut copy = copy(0, "add", "/srv/app.pl");
            let end = (at + 8).min(copy.len());
            copy[at..end].copy_from_slice(&bytes[..end - at]);
            copy.truncate(cut);
            let _ = function(&copy, &bytes);
        }
    }
}
