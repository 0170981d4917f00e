//! A core file: the memory of a process as it was at one moment, its threads, and its map.
//!
//! ```text
//! headers (segments) + notes (threads, mapped files, name) -> lines of a map -> pieces: where bytes are
//!                                                          -> absent: what the file does not have
//! ```
//!
//! A core leaves out what is in files. Such bytes are read of the files that it names, if these are the very
//! builds that were mapped (their build ids agree), else they are missing. What is missing is not readable
//! in the map that is told; nothing stands in for it. Every byte is hostile: sizes are checked against the
//! file, no two segments have the same bytes of it, and nothing is read as a whole but the notes.

mod absent;
mod headers;
mod layout;
mod module;
mod notes;

use std::{
    fs::File,
    ops::Range,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

pub use absent::{Absent, AbsentFile};
pub use headers::CoreError;
pub use notes::{CoreThread, REGISTERS};

use crate::proc::{auxv, errno_of, regular};

const PAGE: u64 = 4096;
/// So much is looked at in one go.
const TOGETHER: u64 = 1 << 20;

/// An open core.
#[derive(Debug)]
pub struct CoreFile {
    file: File,
    /// Its length.
    bytes: u64,
    /// Ascending, and no two overlap.
    pieces: Vec<Piece>,
    modules: Vec<File>,
    /// Where code of these is mapped, ascending.
    code: Vec<(Range<u64>, usize)>,
    maps: String,
    process: notes::Notes,
    absent: Absent,
}

/// Where the bytes of a range of memory are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    range: Range<u64>,
    source: Source,
    offset: u64,
}

/// Which file they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The core.
    Core,
    /// A file that it names.
    Module(usize),
}

impl CoreFile {
    /// Reads headers and notes. The program is `exe`, if it is not where it was.
    ///
    /// # Errors
    /// When it is not a core of this machine, or has no threads.
    pub fn open(path: &Path, exe: Option<&Path>) -> Result<Self, CoreError> {
        let file = open_regular(path).map_err(|errno| CoreError::Open(path.to_owned(), errno))?;
        Self::of(file, exe)
    }

    /// The same of an open file.
    ///
    /// # Errors
    /// As [`CoreFile::open`].
    pub fn of(file: File, exe: Option<&Path>) -> Result<Self, CoreError> {
        let length = file.metadata().map_err(|error| CoreError::Read(errno_of(error)))?.len();
        let headers = headers::read(&file, length)?;
        let process = notes::Notes::parse(&headers.notes)?;
        let planned = layout::plan(&file, length, headers.loads, &process, exe);
        Ok(Self {
            file,
            bytes: length,
            pieces: planned.pieces,
            modules: planned.modules,
            code: planned.code,
            maps: planned.maps,
            process,
            absent: planned.absent,
        })
    }

    /// Its map, as `/proc` would have it. What is missing cannot be read; whether memory was shared is told
    /// by the names of files alone.
    pub fn maps(&self) -> &[u8] {
        self.maps.as_bytes()
    }

    /// Its threads: first the one that the core was written for.
    pub fn threads(&self) -> &[CoreThread] {
        &self.process.threads
    }

    /// The number of the process.
    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// How its command line begins.
    pub fn command(&self) -> &str {
        &self.process.command
    }

    /// Where the dynamic loader was.
    pub fn interpreter(&self) -> Option<u64> {
        self.process.told(auxv::AT_BASE)
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it does not have.
    pub fn absent(&self) -> &Absent {
        &self.absent
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Fills `buffer` from `at` as far as the bytes are known.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        let mut index = self.pieces.partition_point(|piece| piece.range.end <= at);
        while let Some(piece) = self.pieces.get(index).filter(|_| done < buffer.len()) {
            let from = at.saturating_add(done as u64);
            if !piece.range.contains(&from) {
                break;
            }
            let rest = usize::try_from(piece.range.end - from).unwrap_or(usize::MAX);
            let length = rest.min(buffer.len() - done);
            let offset = piece.offset.saturating_add(from - piece.range.start);
            let read = self.read_of(piece.source, offset, &mut buffer[done..done + length]);
            done += read;
            if read < length {
                break;
            }
            index += 1;
        }
        done
    }

    /// The file of the program or library whose code is mapped at an address, if it is the very build.
    pub fn module_at(&self, code: u64) -> Option<&File> {
        let index = self.code.partition_point(|(range, _)| range.end <= code);
        let (_, module) = self.code.get(index).filter(|(range, _)| range.contains(&code))?;
        self.modules.get(*module)
    }

    fn read_of(&self, source: Source, offset: u64, buffer: &mut [u8]) -> usize {
        let file = match source {
            Source::Core => Some(&self.file),
            Source::Module(index) => self.modules.get(index),
        };
        file.map_or(0, |file| read_at(file, offset, buffer))
    }

    /// The parts of a range that the core has bytes of which are not zero, in pages. That is as much as a core
    /// tells of what was in memory.
    pub fn written(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        let first = self.pieces.partition_point(|piece| piece.range.end <= range.start);
        for piece in &self.pieces[first..] {
            if piece.range.start >= range.end {
                break;
            }
            if piece.source == Source::Core {
                let within = piece.range.start.max(range.start)..piece.range.end.min(range.end);
                self.add_written(piece, within, &mut parts);
            }
        }
        parts
    }

    fn add_written(&self, piece: &Piece, within: Range<u64>, parts: &mut Vec<Range<u64>>) {
        let mut buffer = Vec::new();
        let mut at = within.start;
        while at < within.end {
            let end = within.end.min((at / TOGETHER + 1).saturating_mul(TOGETHER));
            buffer.resize(usize::try_from(end - at).unwrap_or(0), 0);
            let offset = piece.offset.saturating_add(at - piece.range.start);
            let read = self.read_of(piece.source, offset, &mut buffer);
            buffer.truncate(read);
            let mut rest = &buffer[..];
            while !rest.is_empty() {
                let length = usize::try_from(PAGE - at % PAGE).unwrap_or(0).min(rest.len());
                let (page, others) = rest.split_at(length);
                let next = at + length as u64;
                if !is_zero(page) {
                    match parts.last_mut() {
                        Some(last) if last.end == at => last.end = next,
                        _ => parts.push(at..next),
                    }
                }
                (at, rest) = (next, others);
            }
            // What cannot be read any more is as good as zero.
            at = end;
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<32>();
    words.iter().all(|word| *word == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}

/// As much as there is.
fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(read @ 1..) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    done
}

/// A file that a user or a core names.
fn open_regular(path: &Path) -> Result<File, Errno> {
    let held: OwnedFd = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    regular::open_held(held)
}
