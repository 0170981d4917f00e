//! What of the blocks in use was not written for a while.

use serde::{Deserialize, Serialize};

/// Blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdSum {
    /// Blocks with pages that were not written.
    pub blocks: u64,
    /// Of these, blocks that have no other.
    pub whole: u64,
    /// Usable bytes of the blocks.
    pub bytes: u64,
    /// Their bytes on such pages.
    pub cold: u64,
}

/// Blocks of one class and size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdRow {
    /// The class, if it is known.
    pub class: Option<String>,
    /// Usable bytes of each.
    pub size: u64,
    /// Their sum.
    pub sum: ColdSum,
}

/// What was not written while pages were watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdReport {
    /// For how long they were watched, in milliseconds.
    pub watched_ms: u64,
    /// Bytes on the pages that were watched: those of private memory that were there at the beginning.
    pub watched: u64,
    /// Of these, bytes on pages that were written to, or went, meanwhile.
    pub written: u64,
    /// Usable bytes of all blocks in use.
    pub in_use: u64,
    /// Of these, bytes in memory that was not watched: of files, shared, or new since then.
    pub not_watched: u64,
    /// What was not written.
    pub sum: ColdSum,
    /// By class and size, those of most such bytes first.
    pub rows: Vec<ColdRow>,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl ColdSum {
    /// A block more, with so many bytes on pages that were not written.
    pub fn add(&mut self, size: u64, cold: u64) {
        self.blocks += 1;
        self.whole += u64::from(size == cold);
        self.bytes = self.bytes.saturating_add(size);
        self.cold = self.cold.saturating_add(cold);
    }

    /// Others besides.
    pub fn join(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.whole += other.whole;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.cold = self.cold.saturating_add(other.cold);
    }
}
