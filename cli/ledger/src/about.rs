//! Whose memory it was, how it was looked at, and what is missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{EndReason, ExitReport, PageKinds, RecordedOutcome, Runtime};
use heapattach_profile::{Exact, Facts};

/// Which process was recorded, when, and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The process.
    pub pid: i32,
    /// Its command line; empty if it was left out.
    pub command: String,
    /// Seconds since 1970 when counting began.
    pub began: u64,
    /// How long the process had been running then; 0 if that is unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub up_ms: u64,
    /// Whether it was seen from its first block on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_start: bool,
    /// The runtime that counted itself, from its start on: `go1.24.1`. Empty where hooks did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub counted_by: String,
    /// Whether only blocks in use are known: not what was freed, and what was allocated besides.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_use_only: bool,
    /// How long was counted.
    pub lasted_ms: u64,
    /// Mean bytes between samples; 1: everything is recorded.
    pub every: u64,
    /// Blocks that were allocated and their bytes, as the hooks counted them: exact, but that a wrapper
    /// may have counted some twice. `None` before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<[u64; 2]>,
    /// The version of heapattach that recorded it.
    pub version: String,
    /// How it ended.
    pub outcome: RecordedOutcome,
    /// How the process ended, if it did.
    pub exit: Option<ExitReport>,
    /// The records that were dropped, and what else is missing.
    pub loss: Loss,
    /// What could not be seen: modules, functions that are not hooked.
    pub blind: Vec<String>,
    /// The types that its code allocates, where the code states them: those of most bytes in use first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeSum>,
    /// Runtimes of languages in this process, and what is seen of their memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<Runtime>,
    /// Its memory in pages before the attach, and of that what no file is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<[u64; 2]>,
    /// By how many bytes its mappings grew since before the attach, by their kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub grown: BTreeMap<String, u64>,
    /// The largest mappings that the kernel has at the end, and that came by no hooked function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhooked: Vec<Unhooked>,
    /// Bytes of all of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unhooked_bytes: u64,
    /// When the kernel's list was last compared with the records, if that was before the end: that of a program
    /// that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_ms: Option<u64>,
    /// Bytes of recorded mappings that the kernel no longer has, and no hooked function unmapped: they do not
    /// count as mapped.
    #[serde(skip_serializing_if = "is_zero")]
    pub vanished: u64,
    /// What the pages that it mapped were at the end, by the address that the call returned to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageKinds>,
    /// Modules without names, with the way to get them.
    pub missing_symbols: Vec<String>,
    /// Why stacks end, in allocations recorded.
    pub ends: BTreeMap<EndReason, u64>,
    /// What part of it this is, in words; all of it, if this is empty. It is never written down.
    #[serde(skip)]
    pub part: Vec<String>,
    /// Blocks that live shorter are temporary.
    pub temporary_ms: u64,
}

/// What was allocated of one type: an estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeSum {
    /// The type, if the code states it.
    pub class: Option<String>,
    /// Stacks that allocate it.
    pub stacks: u64,
    /// Blocks in use.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Blocks that were allocated.
    pub allocated_blocks: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
}

/// A mapping that came by no hooked function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unhooked {
    /// Its file, or what kind of mapping it is.
    pub kind: String,
    /// Where it begins.
    pub start: u64,
    /// Its bytes that are new.
    pub bytes: u64,
}

/// The records that were dropped, and what else is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// Blocks and mappings that found no room in a ring; they are in no number.
    pub blocks: u64,
    /// Freed blocks that found no room: they are shown as in use.
    pub frees: u64,
    /// Samples that the target could not remember.
    pub samples: u64,
    /// Blocks beyond what heapattach holds.
    pub beyond_limit: u64,
    /// Stacks without room.
    pub stacks: u64,
    /// Records that were never finished or make no sense.
    pub torn: u64,
    /// Blocks that must have been freed unseen.
    pub missed_frees: u64,
}

impl About {
    /// What is known of the session besides its records.
    pub fn known(&self) -> Facts {
        let asked = self.asked.map(|[count, bytes]| Exact { bytes, count });
        Facts { every: self.every, asked }
    }
}

impl Loss {
    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
