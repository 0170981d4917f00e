//! What the linker calls one build of a module, and nothing else is called.

use std::{fmt, fs::File, os::unix::fs::FileExt};

use object::{
    Endianness,
    elf::{ELF_NOTE_GNU, ELF_NOTE_GO, FileHeader64, NT_GNU_BUILD_ID, NT_GO_BUILD_ID, NoteType},
    read::elf::{FileHeader, ProgramHeader},
};

/// Twenty bytes are usual.
const LIMIT: usize = 64;
/// Headers and notes stand at the beginning of what is mapped.
const HEAD: usize = 16 << 10;

/// The identity of a build.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// Takes the bytes, unless they are too few or too many for any linker.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (2..=LIMIT).contains(&bytes.len()).then(|| Self(bytes.to_vec()))
    }

    /// What it is.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Of hexadecimal digits.
    pub fn of_digits(digits: &str) -> Option<Self> {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        Self::new(&pairs.map(byte).collect::<Option<Vec<u8>>>()?)
    }

    /// Of the module whose first `size` bytes lie at `start` of `file`: of the memory it is loaded
    /// in, or of the module's own file at 0. Both are asked in the same way, so that only different
    /// builds give different answers.
    pub fn at(file: &File, start: u64, size: u64) -> Option<Self> {
        let mut head = vec![0; usize::try_from(size).unwrap_or(HEAD).min(HEAD)];
        let length = file.read_at(&mut head, start).ok()?;
        Self::in_head(head.get(..length)?)
    }

    /// Of a whole file.
    pub fn of_file(file: &File) -> Option<Self> {
        Self::at(file, 0, u64::MAX)
    }

    /// Of the first bytes of a module.
    pub(crate) fn in_head(head: &[u8]) -> Option<Self> {
        Self::new(note(head, ELF_NOTE_GNU, NT_GNU_BUILD_ID)?)
    }

    /// As a folder and a name in it, which is how debug files are kept.
    pub fn split(&self) -> (String, String) {
        let digits = self.to_string();
        let (folder, name) = digits.split_at(2);
        (folder.to_owned(), name.to_owned())
    }
}

/// What Go's linker calls a build, in the first bytes of a program: until 1.23 it gives no other id.
pub(crate) fn of_go(head: &[u8]) -> Option<&[u8]> {
    note(head, ELF_NOTE_GO, NT_GO_BUILD_ID).filter(|id| !id.is_empty())
}

/// The contents of a note.
fn note<'h>(head: &'h [u8], name: &[u8], kind: NoteType) -> Option<&'h [u8]> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, head).ok()? {
        let Some(mut notes) = segment.notes(endian, head).ok().flatten() else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == name && note.n_type(endian) == kind {
                return Some(note.desc());
            }
        }
    }
    None
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At once: modules are told of in every report of every process.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
        let text: String = self.0.iter().flat_map(|&b| [digit(b >> 4), digit(b)]).collect();
        f.write_str(&text)
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use crate::proc::{Process, maps};
    use object::Object;

    use super::*;

    #[test]
    fn memory_and_file_and_sections_tell_the_same() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let by_sections = object::File::parse(&bytes[..]).unwrap().build_id().unwrap();
        let Some(by_sections) = by_sections.and_then(BuildId::new) else {
            panic!("the linker gives no build ids here")
        };
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let first = maps.iter().find(|m| m.file() == Some(&path)).unwrap();
        let memory = process.open_memory().unwrap();
        let loaded = BuildId::at(&memory, first.range.start.get(), 4096);
        assert_eq!(loaded, Some(by_sections.clone()));
        assert_eq!(BuildId::of_file(&File::open(&path).unwrap()), Some(by_sections));
        assert_eq!(BuildId::at(&memory, 0, 4096), None);
    }

    #[test]
    fn is_written_as_debug_files_are_named() {
        let id = BuildId::new(&[0xab, 1, 2]).unwrap();
        assert_eq!((id.to_string(), id.split()), ("ab0102".into(), ("ab".into(), "0102".into())));
        assert_eq!(BuildId::of_digits("ab0102"), Some(id));
        assert_eq!(BuildId::of_digits("abcdez"), None);
        assert!(BuildId::new(&[1]).is_none() && BuildId::new(&[0; LIMIT + 1]).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_head_is_survived(bytes: Vec<u8>) {
            let _ = BuildId::in_head(&bytes);
            let _ = BuildId::in_head(&[b"\x7fELF\x02\x01\x01", &bytes[..]].concat());
        }
    }
}
