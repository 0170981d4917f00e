//! The file of a moment.

pub(crate) mod error;
mod limits;
mod private;
pub(crate) mod read;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use heapattach_report::CensusReport;
use serde::{Deserialize, Serialize};

/// Words that a file begins with; the number of the version and a line feed follow.
const TITLE: &[u8] = b"heapattach moment ";
/// The version that is written, and the last one that is read.
const VERSION: u32 = 1;
/// Bytes of a head.
const HEAD: usize = 12;
/// No content is larger: a small file must not become a large one in memory.
pub const LIMIT: usize = 24 << 20;

/// What a file has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// The version of the heapattach that wrote it.
    pub version: String,
    /// What all memory was, with all rows that were kept.
    pub census: CensusReport,
}
