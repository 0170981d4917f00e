//! What a core does not have. Words alone.

use super::PAGE;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Bytes that its headers promise, behind its end: it was cut off.
    pub cut_off: u64,
    /// Bytes of memory that was left out when it was written (coredump_filter, MADV_DONTDUMP).
    pub left_out: u64,
    /// Whether any of that could be written to: pointers could lie there.
    pub was_writable: bool,
    /// Files whose bytes are missing, those of most bytes first.
    pub files: Vec<AbsentFile>,
}

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentFile {
    /// Its path.
    pub path: String,
    /// Bytes of its mappings that are missing.
    pub bytes: u64,
    /// Why they were not read of the file.
    pub why: &'static str,
}

impl Absent {
    /// Whether nothing but files is missing.
    pub fn has_all_memory(&self) -> bool {
        self.cut_off < PAGE && self.left_out == 0
    }

    /// A part of a file.
    pub(super) fn add_file(&mut self, path: &str, bytes: u64, why: &'static str) {
        match self.files.iter_mut().find(|file| file.path == path && file.why == why) {
            Some(file) => file.bytes = file.bytes.saturating_add(bytes),
            None => self.files.push(AbsentFile { path: path.to_owned(), bytes, why }),
        }
    }
}
