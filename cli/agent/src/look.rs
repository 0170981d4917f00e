//! Looks at a process that a rule asks for from time to time.

use serde::{Deserialize, Serialize};

use crate::facts::Key;

/// What is looked at.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// What the allocators count: nothing is stopped and nothing written.
    Allocator,
    /// All memory at one moment: stops the process for a fork of it.
    Census,
}

/// A look that was begun.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Looked {
    /// The process.
    pub pid: i32,
    /// When it began.
    pub start: u64,
    /// At what.
    pub look: Look,
    /// When, in seconds since 1970.
    pub at: u64,
}

impl Look {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Allocator, Self::Census];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Census => "census",
        }
    }
}

impl Looked {
    /// Which process it was.
    pub fn key(&self) -> Key {
        Key { pid: self.pid, start: self.start }
    }
}
