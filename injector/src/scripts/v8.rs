//! V8 in a target, as Node.js has it: which version, how its objects lie, and what a copy of a function says.
//!
//! V8 tells debuggers most of that by symbols that it exports. What they do not say was read in the sources of the
//! versions named here, so these count only where the symbols agree with them; others are refused.

use heapattach_abi::python::{
    FILE_AT, FILE_BYTES, NAME_AT, NAME_BYTES, Orders, V8_CODE_WORDS, V8_TEXT_CUT,
};

use heapattach_process::memory::Memory;

use super::{interpreter::Found, v8_lines::Form};
use crate::module::v8_marks::{
    Constant::{self, *},
    V8Marks,
};

/// Versions whose objects are known: those of Node.js 18, 20, 22 and 24.
const VERSIONS: [(i32, i32); 4] = [(10, 2), (11, 3), (12, 4), (13, 6)];
const OTHER: &str = "its structures are not known to this heapattach (those of V8 10.2, 11.3, 12.4 and 13.6 are, \
                     which Node.js 18, 20, 22 and 24 have)";
const CHANGED: &str = "what it exports about its structures is not what its version has";
const COMPRESSED: &str = "its pointers are compressed: not tried";

/// What every version that is known says.
const SAME: [(Constant, i32); 24] = [
    (PointerSize, 8),
    (SmiShift, 31),
    (ObjectTag, 1),
    (FormMask, 7),
    (Joined, 1),
    (External, 2),
    (Sliced, 3),
    (Thin, 5),
    (NarrowMask, 8),
    (NoText, 128),
    (TextLength, 12),
    (TextParent, 16),
    (TextOffset, 24),
    (TextResource, 16),
    (Letters, 16),
    (MapKind, 12),
    (Context, -8),
    (Function, -16),
    (Bytecode, -32),
    (BytecodeOffset, -40),
    (TableLength, 8),
    (ScriptName, 16),
    (ScriptLineEnds, 56),
    (ScriptEvalFrom, 80),
];
const SOURCE_AT: i32 = 8;

/// A function without a name.
const ANONYMOUS: &str = "(anonymous)";
/// Code of a text without a file.
const NO_FILE: &str = "<anonymous>";

/// The V8 that these symbols are of.
pub(super) fn recognise(marks: &V8Marks, memory: &Memory) -> Option<Found> {
    if !marks.is_there {
        return None;
    }
    let number = |which| marks.number(memory, which);
    let version = [Major, Minor, Build, Patch].map(|which| number(which).unwrap_or(0));
    let [major, minor, build, patch] = version;
    let version = format!("with V8 {major}.{minor}.{build}.{patch}");
    Some(Found { version, orders: orders((major, minor), &number) })
}

/// What the payload is to be told.
fn orders(
    version: (i32, i32),
    number: &impl Fn(Constant) -> Option<i32>,
) -> Result<Orders, &'static str> {
    if number(TaggedSize) == Some(4) {
        return Err(COMPRESSED);
    }
    if !VERSIONS.contains(&version) {
        return Err(OTHER);
    }
    let is_new = version.0 >= 12;
    let is_same = SAME.iter().all(|&(which, value)| number(which) == Some(value));
    // The oldest one does not say where a script has its text.
    let source = number(ScriptSource).unwrap_or(SOURCE_AT);
    let first_variable = if version.0 >= 13 { 5 } else { 3 };
    let is_known = is_same
        && number(TaggedSize).is_none_or(|size| size == 8)
        && source == SOURCE_AT
        && number(FirstVariable) == Some(first_variable)
        && (number(TrustedTableKind).is_some() == is_new);
    if !is_known {
        return Err(CHANGED);
    }
    let word = |which: Constant, least: u64, most: u64| {
        let told = number(which).and_then(|told| u64::try_from(told).ok());
        told.filter(|told| (least..=most).contains(told)).ok_or(CHANGED)
    };
    let of_shared = |which| word(which, 8, 56).and_then(|at| multiple(at));
    let kind = |which| word(which, 1, 0xffff);
    let table = kind(if is_new { TrustedTableKind } else { TableKind })?;
    let kinds = [kind(SharedKind)?, kind(ScriptKind)?, kind(BytecodeKind)?, table];
    Ok(Orders {
        // Nothing is read there: frames are found on the stack.
        runtime: 8,
        tells_apart: 1,
        code: word(FunctionShared, 8, 64).and_then(multiple)?,
        name: of_shared(SharedScope)?,
        file: of_shared(SharedScript)?,
        identity: of_shared(SharedFlags)?,
        lines: if is_new { 24 } else { 32 },
        bytes: word(BytecodeData, 40, 80)?,
        index: 8 * (u64::from(first_variable.unsigned_abs()) + 1),
        kinds: kinds.iter().rev().fold(0, |all, kind| all << 16 | kind),
        scope: kind(ScopeKind)?,
        ..Orders::default()
    })
}

fn multiple(at: u64) -> Result<u64, &'static str> {
    if at.is_multiple_of(8) { Ok(at) } else { Err(CHANGED) }
}

/// What a copy of a function says: its name, its file, the line on which it begins, and how lines are told.
pub(super) fn function(copy: &[u8]) -> Option<(String, String, u32, Form)> {
    let (head, _) = copy.get(..V8_CODE_WORDS * 8)?.as_chunks::<8>();
    let head: Vec<u64> = head.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let &[line, start, end, table, wide] = &head[..] else { return None };
    let text = |at: usize, bytes: usize| text(copy.get(at..at + bytes)?);
    let function = text(NAME_AT, NAME_BYTES).filter(|name| !name.is_empty());
    let file = text(FILE_AT, FILE_BYTES).filter(|name| !name.is_empty());
    let first_line = u32::try_from(line).ok()?;
    let form = Form {
        start: u32::try_from(start).ok()?,
        end: u32::try_from(end).ok()?,
        table: usize::try_from(table).ok()?,
        is_wide: wide == 1,
    };
    let file = file.map_or_else(|| NO_FILE.to_owned(), path);
    Some((function.unwrap_or_else(|| ANONYMOUS.to_owned()), file, first_line, form))
}

/// The path of a module that is named by an address.
fn path(file: String) -> String {
    match file.strip_prefix("file://") {
        Some(path) if path.starts_with('/') && !path.contains('%') => path.to_owned(),
        _ => file,
    }
}

fn text(copy: &[u8]) -> Option<String> {
    let (head, letters) = copy.split_first_chunk::<8>()?;
    let head = u64::from_le_bytes(*head);
    let bytes = usize::try_from((head & !V8_TEXT_CUT) >> 1).ok()?;
    let letters = letters.get(..bytes)?;
    let mut told: String = if head & 1 == 0 {
        letters.iter().map(|&byte| char::from(byte)).collect()
    } else {
        let (pairs, _) = letters.as_chunks::<2>();
        let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
        char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    if told.chars().any(char::is_control) {
        told = told.escape_debug().to_string();
    }
    if head & V8_TEXT_CUT != 0 {
        told.push('\u{2026}');
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use heapattach_abi::python::LINES_AT;
    use proptest::prelude::*;

    use super::*;

    /// What Node.js 20 says.
    fn of_20(which: Constant) -> Option<i32> {
        let more = [
            (TaggedSize, 8),
            (FunctionShared, 24),
            (SharedScope, 16),
            (SharedScript, 32),
            (SharedFlags, 48),
            (BytecodeData, 54),
            (ScriptSource, 8),
            (FirstVariable, 3),
            (SharedKind, 262),
            (ScriptKind, 167),
            (BytecodeKind, 191),
            (ScopeKind, 261),
            (TableKind, 190),
        ];
        SAME.iter().chain(&more).find(|(known, _)| *known == which).map(|(_, value)| *value)
    }

    fn copy(name: &str, file: &str) -> Vec<u8> {
        let mut copy = vec![0; LINES_AT];
        let mut put = |at: usize, bytes: &[u8]| copy[at..at + bytes.len()].copy_from_slice(bytes);
        for (number, word) in [7_u64, 100, 200, 0, 0].into_iter().enumerate() {
            put(number * 8, &word.to_le_bytes());
        }
        for (at, text) in [(NAME_AT, name), (FILE_AT, file)] {
            put(at, &(text.len() as u64 * 2).to_le_bytes());
            put(at + 8, text.as_bytes());
        }
        copy
    }

    #[test]
    fn a_version_counts_if_its_symbols_are_as_they_were() {
        let told = orders((11, 3), &of_20).unwrap();
        assert_eq!((told.code, told.name, told.file, told.identity), (24, 16, 32, 48));
        assert_eq!((told.lines, told.bytes, told.index, told.scope), (32, 54, 32, 261));
        assert_eq!(told.kinds, 190 << 48 | 191 << 32 | 167 << 16 | 262);
        assert_eq!(orders((11, 4), &of_20), Err(OTHER));
        assert_eq!(orders((12, 4), &of_20), Err(CHANGED));
        for gone in [Thin, SharedFlags, FirstVariable, Context] {
            let other = |which| of_20(which).filter(|_| which != gone);
            assert_eq!(orders((11, 3), &other), Err(CHANGED), "{gone:?}");
        }
        let small = |which| if which == TaggedSize { Some(4) } else { of_20(which) };
        assert_eq!(orders((11, 3), &small), Err(COMPRESSED));
    }

    #[test]
    fn a_copy_says_where_a_function_is() {
        let told = |name, file| function(&copy(name, file)).map(|(name, file, ..)| (name, file));
        let both = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(told("f", "/srv/app.js"), both("f", "/srv/app.js"));
        assert_eq!(told("", "file:///srv/app.mjs"), both(ANONYMOUS, "/srv/app.mjs"));
        assert_eq!(told("f", ""), both("f", NO_FILE));
        assert_eq!(told("a\u{1b}", "x"), both("a\\u{1b}", "x"));
    }

    proptest! {
        #[test]
        fn any_copy_is_survived(at in 0..LINES_AT, bytes: [u8; 8], cut in 0..=LINES_AT) {
            let mut copy = copy("f", "/srv/app.js");
            let end = (at + 8).min(copy.len());
            copy[at..end].copy_from_slice(&bytes[..end - at]);
            copy.truncate(cut);
            let _ = function(&copy);
        }
    }
}
