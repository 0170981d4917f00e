//! The journal of a home: every change, noted before it is made.

use super::{CHANGE_BYTES, Home, HomeError, MODULE_BYTES};
use heapattach_process::{addr::RemoteAddr, little_endian::u64_at, memory::Memory};

/// A module that words were changed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleRecord {
    /// Where it was loaded.
    pub base: u64,
    /// Its dynamic section.
    pub dynamic: RemoteAddr,
    /// What tells it from another at the same place.
    pub identity: u64,
}

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A word that holds a function's address.
    Slot,
    /// The first instructions of a function.
    Entry,
    /// The target of a branch inside the allocator.
    Bypass,
    /// The word by which a mailbox tells its program that a session watches: of its new value only
    /// the upper half stays the same.
    Watch,
    /// A part of the jump in the place of a client request. There are three of a request, and each leaves code
    /// that may be run (`crate::hook::requests`).
    Request,
}

/// One change of at most eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub at: RemoteAddr,
    /// What was there.
    pub old: [u8; 8],
    /// What we wrote.
    pub new: [u8; 8],
    /// How many of the bytes count.
    pub length: usize,
    /// What it is.
    pub kind: ChangeKind,
    /// Index of its module.
    pub module: u64,
}

impl Change {
    /// Whether these bytes, found where it was made, are what we wrote.
    pub fn is_made(&self, now: &[u8]) -> bool {
        let counts = if self.kind == ChangeKind::Watch { 4..8 } else { 0..self.length };
        now.get(counts.clone()) == Some(&self.new[counts])
    }
}

impl Home {
    /// Notes modules; answers the index of the first.
    ///
    /// # Errors
    /// When there is no room, or the target cannot be written.
    pub fn note_modules(
        &mut self,
        memory: &Memory,
        modules: &[ModuleRecord],
    ) -> Result<u64, HomeError> {
        let first = self.header.modules;
        if first + modules.len() as u64 > self.header.module_room {
            return Err(HomeError::Full(self.header.module_room));
        }
        let words = modules.iter().flat_map(|m| [m.base, m.dynamic.get(), m.identity]);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let at = self.modules_at().offset(first * MODULE_BYTES);
        memory.write(at, &bytes).map_err(|source| self.failed(source))?;
        self.amend(memory, |header| header.modules += modules.len() as u64)?;
        Ok(first)
    }

    /// Notes changes that are about to be made.
    ///
    /// # Errors
    /// When there is no room, or the target cannot be written; then no change may be made.
    pub fn note_changes(&mut self, memory: &Memory, changes: &[Change]) -> Result<(), HomeError> {
        let first = self.header.changes;
        if first + changes.len() as u64 > self.header.change_room {
            return Err(HomeError::Full(self.header.change_room));
        }
        let mut bytes = Vec::with_capacity(changes.len() * 40);
        for change in changes {
            let kind = match change.kind {
                ChangeKind::Slot => 0_u64,
                ChangeKind::Entry => 1,
                ChangeKind::Bypass => 2,
                ChangeKind::Watch => 3,
                ChangeKind::Request => 4,
            };
            bytes.extend(change.at.get().to_le_bytes());
            bytes.extend(change.old);
            bytes.extend(change.new);
            bytes.extend((change.length as u64 | kind << 8).to_le_bytes());
            bytes.extend(change.module.to_le_bytes());
        }
        let at = self.changes_at().offset(first * CHANGE_BYTES);
        memory.write(at, &bytes).map_err(|source| self.failed(source))?;
        self.amend(memory, |header| header.changes += changes.len() as u64)
    }

    /// The modules noted.
    ///
    /// # Errors
    /// When the target cannot be read.
    pub fn modules(&self, memory: &Memory) -> Result<Vec<ModuleRecord>, HomeError> {
        let bytes = self.read(memory, self.modules_at(), self.header.modules * MODULE_BYTES)?;
        let word = |record: &[u8], i: usize| u64_at(record, i * 8).unwrap_or(0);
        let records = bytes.chunks_exact(24).map(|r| ModuleRecord {
            base: word(r, 0),
            dynamic: RemoteAddr::new(word(r, 1)),
            identity: word(r, 2),
        });
        Ok(records.collect())
    }

    /// The changes noted; each may or may not have been made.
    ///
    /// # Errors
    /// When the target cannot be read.
    pub fn changes(&self, memory: &Memory) -> Result<Vec<Change>, HomeError> {
        let bytes = self.read(memory, self.changes_at(), self.header.changes * CHANGE_BYTES)?;
        let word = |record: &[u8], i: usize| u64_at(record, i * 8).unwrap_or(0);
        let records = bytes.chunks_exact(40).filter_map(|r| {
            let kind = match word(r, 3) >> 8 {
                0 => ChangeKind::Slot,
                1 => ChangeKind::Entry,
                2 => ChangeKind::Bypass,
                3 => ChangeKind::Watch,
                4 => ChangeKind::Request,
                _ => return None,
            };
            let length = usize::from(r[24]).min(8);
            let (old, new) = (word(r, 1).to_le_bytes(), word(r, 2).to_le_bytes());
            Some(Change {
                at: RemoteAddr::new(word(r, 0)),
                old,
                new,
                length,
                kind,
                module: word(r, 4),
            })
        });
        Ok(records.collect())
    }
}
