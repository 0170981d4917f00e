//! The headers of a core: its segments, and its notes as bytes.

use std::{fs::File, path::PathBuf};

use nix::errno::Errno;
use object::{
    Endianness, ReadCache, ReadCacheOps, ReadRef,
    elf::{EM_X86_64, ET_CORE, FileHeader64, NoteType, PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE},
    read::elf::{FileHeader, ProgramHeader},
};

/// No process has more mappings.
const MOST_SEGMENTS: u32 = 1 << 20;
/// Some kilobytes a thread.
const MOST_NOTES: u64 = 512 << 20;

/// Why a file cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// It cannot be opened.
    #[error("{}: {}", .0.display(), .1.desc())]
    Open(PathBuf, Errno),
    /// It cannot be read.
    #[error("it cannot be read: {}", .0.desc())]
    Read(Errno),
    /// It is not a 64-bit ELF file.
    #[error("not a core: no 64-bit ELF file")]
    NotElf,
    /// It is a program, a library or an object.
    #[error("not a core: an ELF file of type {0}; need 4 (ET_CORE)")]
    NotCore(u16),
    /// It comes from another machine.
    #[error("a core of ELF machine {0}; need 62 (x86-64)")]
    Machine(u16),
    /// The headers or notes are damaged, or behind its end.
    #[error("its headers cannot be read: {0}")]
    Headers(&'static str),
    /// It was cut off before its notes, which gdb writes last.
    #[error(
        "it is cut off: at least {0} bytes are missing, among them the notes of its threads and mapped files, \
         without which nothing can be told"
    )]
    CutOff(u64),
    /// There are no registers.
    #[error("no thread is told in its notes")]
    NoThreads,
}

/// A segment of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub start: u64,
    /// Of memory.
    pub size: u64,
    pub offset: u64,
    /// Of these so many in the file, as the header says.
    pub stored: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// The name of a note, its type and its bytes.
pub(super) type Note = (Vec<u8>, NoteType, Vec<u8>);

/// What the headers tell.
#[derive(Debug, Default)]
pub(super) struct Headers {
    pub loads: Vec<Load>,
    /// The notes, each with its type.
    pub notes: Vec<Note>,
}

/// A file of known length.
struct Bounded<'a> {
    file: &'a File,
    at: u64,
    length: u64,
}

impl ReadCacheOps for Bounded<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn seek(&mut self, pos: u64) -> Result<u64, ()> {
        self.at = pos;
        Ok(pos)
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, ()> {
        let read = super::read_at(self.file, self.at, buf);
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ()> {
        let length = buf.len();
        if self.read(buf)? == length { Ok(()) } else { Err(()) }
    }
}

/// Reads them.
pub(super) fn read(file: &File, length: u64) -> Result<Headers, CoreError> {
    let cache = ReadCache::new(Bounded { file, at: 0, length });
    parse(&cache)
}

fn parse<'a>(data: impl ReadRef<'a>) -> Result<Headers, CoreError> {
    type Header = FileHeader64<Endianness>;
    let header = Header::parse(data).map_err(|_| CoreError::NotElf)?;
    let endian = header.endian().map_err(|_| CoreError::NotElf)?;
    if header.e_machine(endian) != EM_X86_64 || endian != Endianness::Little {
        return Err(CoreError::Machine(header.e_machine(endian).0));
    }
    if header.e_type(endian) != ET_CORE {
        return Err(CoreError::NotCore(header.e_type(endian).0));
    }
    let damaged = |_| CoreError::Headers("they are cut off, or damaged");
    if header.phnum(endian, data).map_err(damaged)? > MOST_SEGMENTS {
        return Err(CoreError::Headers("there are too many"));
    }
    let mut headers = Headers::default();
    let mut bytes: u64 = 0;
    for segment in header.program_headers(endian, data).map_err(damaged)? {
        let (kind, flags) = (segment.p_type(endian), segment.p_flags(endian));
        if kind == PT_LOAD {
            headers.loads.push(Load {
                start: segment.p_vaddr(endian),
                size: segment.p_memsz(endian),
                offset: segment.p_offset(endian),
                stored: segment.p_filesz(endian),
                readable: flags.0 & PF_R.0 != 0,
                writable: flags.0 & PF_W.0 != 0,
                executable: flags.0 & PF_X.0 != 0,
            });
        }
        if kind != PT_NOTE {
            continue;
        }
        bytes = bytes.saturating_add(segment.p_filesz(endian));
        if bytes > MOST_NOTES {
            return Err(CoreError::Headers("its notes are too long"));
        }
        let end = segment.p_offset(endian).saturating_add(segment.p_filesz(endian));
        let length = data.len().unwrap_or(0);
        if end > length {
            return Err(CoreError::CutOff(end - length));
        }
        let notes = segment.notes(endian, data).map_err(damaged)?;
        for note in notes.into_iter().flatten() {
            let note = note.map_err(damaged)?;
            let kind = note.n_type(endian);
            headers.notes.push((note.name().to_vec(), kind, note.desc().to_vec()));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_core_is_named() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(parse(&own[..]), Err(CoreError::NotCore(2 | 3))));
        assert!(matches!(parse(&b"what is this"[..]), Err(CoreError::NotElf)));
        let mut foreign = own[..64].to_vec();
        foreign[18] = 183;
        assert!(matches!(parse(&foreign[..]), Err(CoreError::Machine(183))));
    }
}
