//! What of a moment is told only if the user asks for it by name, and never kept in a file: one arena, contents.

use heapattach_census::{
    contents::ContentsRow,
    stats::{Fill, SizeRow},
    types::ClassRow,
    waste::Waste,
};
use serde::{Deserialize, Serialize};

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AskedReport {
    /// Arenas of the name that was asked for: `--arena`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arena: Option<ArenasReport>,
    /// How blocks begin: `--show-contents`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<ContentsReport>,
}

/// The arenas of one name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ArenasReport {
    /// As it was typed.
    pub name: String,
    /// They, of each allocator that has one.
    pub found: Vec<ArenaDetail>,
    /// Why there is none.
    pub error: Option<String>,
}

/// What one arena has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ArenaDetail {
    /// The allocator.
    pub allocator: String,
    /// Its name there.
    pub arena: String,
    /// The sizes of most bytes in use.
    pub sizes: Vec<SizeRow>,
    /// How many different sizes there are.
    pub different_sizes: u64,
    /// Blocks in use whose objects say their class, those of most bytes first.
    pub classes: Vec<ClassRow>,
    /// Its pages that are in memory, by how full they are.
    pub pages: Fill,
    /// What of its blocks may be waste.
    pub waste: Waste,
}

/// How blocks begin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContentsReport {
    /// So many bytes at most are told of a block.
    pub bytes: u64,
    /// By class and size.
    pub rows: Vec<ContentsRow>,
}

impl AskedReport {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.arena.is_none() && self.contents.is_none()
    }
}
