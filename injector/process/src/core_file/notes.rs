//! The notes of a core: threads with their registers, mapped files, the auxiliary vector, the name. Pure.

use std::ops::Range;

use object::elf::{NT_AUXV, NT_FILE, NT_FPREGSET, NT_PRPSINFO, NT_PRSTATUS, NT_X86_XSTATE};

use super::headers::{CoreError, Note};
use crate::little_endian::{u32_at, u64_at};

/// General registers of a thread, as `user_regs_struct` has them.
pub const REGISTERS: usize = 27;

/// No process has more.
const MOST_THREADS: usize = 1 << 20;
/// The state of the vector registers is a few kilobytes.
const LONGEST_STATE: usize = 64 << 10;
/// Files that are mapped.
const MOST_FILES: u64 = 1 << 20;

/// In `elf_prstatus`: the number of the thread, and its registers.
const STATUS_TID: usize = 32;
const STATUS_REGISTERS: usize = 112;
/// In `elf_prpsinfo`: the number of the process, the name of its program and how its command line begins.
const INFO_PID: usize = 24;
const INFO_NAME: usize = 40;
const INFO_COMMAND: usize = 56;
const INFO_END: usize = 136;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreThread {
    /// Its number.
    pub tid: i32,
    /// Its general registers, in the order of `user_regs_struct`.
    pub registers: [u64; REGISTERS],
    /// The state of its vector registers, as the kernel has it.
    pub vectors: Vec<u8>,
}

/// A part of a file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedFile {
    pub range: Range<u64>,
    pub offset: u64,
    pub path: String,
}

/// All that is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    pub threads: Vec<CoreThread>,
    /// Ascending, and no two overlap.
    pub files: Vec<MappedFile>,
    /// Pairs of the auxiliary vector.
    pub auxiliary: Vec<(u64, u64)>,
    pub pid: i32,
    pub command: String,
}

impl Notes {
    /// Of name, type and bytes of each. What makes no sense is left out.
    pub fn parse(notes: &[Note]) -> Result<Self, CoreError> {
        let mut parsed = Self::default();
        for (name, kind, bytes) in notes {
            match (&name[..], *kind) {
                (b"CORE", NT_PRSTATUS) if parsed.threads.len() < MOST_THREADS => {
                    parsed.threads.extend(thread(bytes));
                }
                // What is told of a thread's vectors follows it. The longer form has all of the shorter.
                (b"CORE", NT_FPREGSET) | (b"LINUX", NT_X86_XSTATE) => {
                    if let Some(thread) = parsed.threads.last_mut()
                        && bytes.len() > thread.vectors.len()
                    {
                        thread.vectors = bytes[..bytes.len().min(LONGEST_STATE)].to_vec();
                    }
                }
                (b"CORE", NT_PRPSINFO) => parsed.name(bytes),
                (b"CORE", NT_AUXV) => parsed.auxiliary = auxiliary(bytes),
                (b"CORE", NT_FILE) => parsed.files = files(bytes).unwrap_or_default(),
                _ => {}
            }
        }
        if parsed.threads.is_empty() { Err(CoreError::NoThreads) } else { Ok(parsed) }
    }

    fn name(&mut self, bytes: &[u8]) {
        let text = |range: Range<usize>| {
            let bytes = bytes.get(range).unwrap_or_default();
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
        };
        self.pid = u32_at(bytes, INFO_PID).map_or(0, u32::cast_signed).max(0);
        self.command = text(INFO_COMMAND..INFO_END);
        if self.command.is_empty() {
            self.command = text(INFO_NAME..INFO_COMMAND);
        }
    }

    /// A value of the auxiliary vector.
    pub fn told(&self, tag: u64) -> Option<u64> {
        self.auxiliary.iter().find(|pair| pair.0 == tag).map(|pair| pair.1).filter(|&at| at != 0)
    }
}

fn thread(bytes: &[u8]) -> Option<CoreThread> {
    let tid = u32_at(bytes, STATUS_TID)?.cast_signed();
    let (words, _) = bytes.get(STATUS_REGISTERS..)?.as_chunks::<8>();
    let words: &[[u8; 8]; REGISTERS] = words.first_chunk()?;
    Some(CoreThread { tid, registers: words.map(u64::from_le_bytes), vectors: Vec::new() })
}

fn auxiliary(bytes: &[u8]) -> Vec<(u64, u64)> {
    let (pairs, _) = bytes.as_chunks::<16>();
    let pair = |pair: &[u8; 16]| Some((u64_at(pair, 0)?, u64_at(pair, 8)?));
    pairs.iter().filter_map(pair).take_while(|pair| pair.0 != 0).take(1024).collect()
}

/// A count and the size of a page, then ranges and places in files, then names.
fn files(bytes: &[u8]) -> Option<Vec<MappedFile>> {
    let (count, page) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    let end = usize::try_from(count.min(MOST_FILES)).ok()?.checked_mul(24)?.checked_add(16)?;
    let (rows, _) = bytes.get(16..end)?.as_chunks::<24>();
    let mut names = bytes.get(end..)?.split(|&byte| byte == 0);
    let mut files = Vec::new();
    for row in rows {
        let (start, end, offset) = (u64_at(row, 0)?, u64_at(row, 8)?, u64_at(row, 16)?);
        let path = String::from_utf8_lossy(names.next()?).replace(char::is_control, "?");
        if let Some(offset) = offset.checked_mul(page).filter(|_| start < end) {
            files.push(MappedFile { range: start..end, offset, path });
        }
    }
    files.sort_by_key(|file| file.range.start);
    let mut last = 0;
    files.retain(|file| {
        let is_behind = file.range.start >= last;
        last = last.max(file.range.end);
        is_behind
    });
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: object::elf::NoteType, bytes: &[u8]) -> Note {
        (name.to_vec(), kind, bytes.to_vec())
    }

    fn status(tid: u32) -> Vec<u8> {
        let mut bytes = vec![0; 336];
        bytes[STATUS_TID..STATUS_TID + 4].copy_from_slice(&tid.to_le_bytes());
        bytes[STATUS_REGISTERS + 16] = 7;
        bytes
    }

    #[test]
    fn threads_have_their_registers_and_vectors() {
        let notes = [
            note(b"CORE", NT_PRSTATUS, &status(11)),
            note(b"CORE", NT_FPREGSET, &[1; 512]),
            note(b"LINUX", NT_X86_XSTATE, &[2; 2000]),
            note(b"CORE", NT_PRSTATUS, &status(12)),
            note(b"CORE", NT_FPREGSET, &[3; 512]),
            note(b"CORE", NT_PRSTATUS, &[0; 100]),
        ];
        let parsed = Notes::parse(&notes).unwrap();
        let told = parsed.threads.iter().map(|t| (t.tid, t.registers[2], t.vectors.len()));
        assert_eq!(told.collect::<Vec<_>>(), [(11, 7, 2000), (12, 7, 512)]);
        assert!(matches!(Notes::parse(&[]), Err(CoreError::NoThreads)));
    }

    #[test]
    fn mapped_files_are_told_in_order_and_none_overlaps() {
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        let rows = [3, 4096, 0x5000, 0x6000, 2, 0x1000, 0x2000, 0, 0x1800, 0x3000, 1];
        let bytes = [words(&rows), b"/lib/b\0/bin/a\nx\0/over\0".to_vec()].concat();
        let found = files(&bytes).unwrap();
        let told: Vec<_> =
            found.iter().map(|f| (f.range.start, f.offset, f.path.as_str())).collect();
        assert_eq!(told, [(0x1000, 0, "/bin/a?x"), (0x5000, 0x2000, "/lib/b")]);
        assert_eq!(files(&words(&[u64::MAX, 4096])), None);
    }

    proptest::proptest! {
        #[test]
        fn any_notes_are_survived(kinds: Vec<(u8, Vec<u8>)>) {
            let types = [NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE, NT_FPREGSET];
            let notes = kinds.into_iter().map(|(kind, bytes)| {
                (b"CORE".to_vec(), types[usize::from(kind) % types.len()], bytes)
            });
            let _ = Notes::parse(&notes.collect::<Vec<_>>());
        }
    }
}
