//! The core that a census was made of.

use serde::{Deserialize, Serialize};

/// What it has, and what it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreReport {
    /// Its path.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Bytes that its headers promise, behind its end.
    pub cut_off: u64,
    /// Bytes of memory that was left out when it was written.
    pub left_out: u64,
    /// Files whose bytes are missing, those of most bytes first.
    pub files: Vec<AbsentFileReport>,
}

/// A file that was mapped, and could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentFileReport {
    /// Its path.
    pub path: String,
    /// Bytes of its mappings that are missing.
    pub bytes: u64,
    /// Why they were not read of the file.
    pub why: String,
}
