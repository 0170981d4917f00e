//! One moment of the session.

use serde::{Deserialize, Serialize};

/// What was known at one moment. What could not be read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Since counting began.
    pub at_ms: u64,
    /// Bytes of recorded blocks that were live, estimated.
    pub live: f64,
    /// Bytes handed out since counting began, estimated.
    pub allocated: f64,
    /// Blocks handed out since counting began, estimated.
    pub blocks: f64,
    /// Bytes of pages mapped by hooked calls since counting began, and still.
    pub mapped: u64,
    /// Memory of the process in pages.
    pub rss: Option<u64>,
    /// The same, shared pages divided by how many share them.
    pub pss: Option<u64>,
    /// Of `rss`, in pages of its own that no file is behind.
    pub anonymous: Option<u64>,
    /// What the control group of the process uses, and how much it may.
    pub cgroup: Option<u64>,
    /// See above.
    pub cgroup_limit: Option<u64>,
}
