//! Reading the memory of a process that may be running.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use super::maps::Mapping;

const PAGE: usize = 4096;

/// A process's memory, through its `mem` file.
pub(super) struct Memory {
    file: File,
}

impl Memory {
    pub(super) fn open(task: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(task.join("mem"))? })
    }

    /// One word, if it can be read.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, address).ok()?;
        Some(u64::from_ne_bytes(word))
    }

    /// A whole mapping; pages that cannot be read (behind the end of a file) are zeros.
    pub(super) fn contents(&self, mapping: &Mapping) -> Vec<u8> {
        let length = usize::try_from(mapping.end - mapping.start).expect("mappings fit in memory");
        let mut bytes = vec![0; length];
        if self.file.read_exact_at(&mut bytes, mapping.start).is_ok() {
            return bytes;
        }
        for (page, address) in bytes.chunks_mut(PAGE).zip((mapping.start..).step_by(PAGE)) {
            if self.file.read_exact_at(page, address).is_err() {
                page.fill(0);
            }
        }
        bytes
    }
}
