//! Who holds the blocks of a process, and how much.

use heapattach_reach::{Amount, RootKind};
use serde::{Deserialize, Serialize};

/// Who holds what.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HoldersReport {
    /// Blocks in use.
    pub blocks: Amount,
    /// Of these, those that a root leads to.
    pub reached: Amount,
    /// What holds most, as a tree: each comes after the one that it goes on from.
    pub holders: Vec<HolderRow>,
    /// What retains so much that it is named first.
    pub suspects: Vec<SuspectReport>,
    /// The paths that were asked for, those of most bytes first.
    pub paths: Vec<PathReport>,
    /// What was asked for, if no block is that.
    pub not_found: Option<String>,
    /// Why some of it may not be so.
    pub doubt: Option<String>,
    /// Why it cannot be told.
    pub error: Option<String>,
    /// Milliseconds that all of this took.
    pub took_ms: f64,
}

/// A root or blocks of a kind, and what would be freed with them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HolderRow {
    /// The index of what it goes on from, if it does.
    pub before: Option<u64>,
    /// The kind of root; none of blocks.
    pub root: Option<RootKind>,
    /// A variable, a thread, a mapping; or a class, or the size of blocks that do not say theirs.
    pub name: String,
    /// The blocks themselves.
    pub own: Amount,
    /// With all that only they lead to.
    pub retained: Amount,
}

/// What retains a large part of all blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SuspectReport {
    /// The index of the holder where it begins.
    pub holder: u64,
    /// The same of the point up to which nearly all of it is retained.
    pub accumulates: u64,
    /// Of all bytes that are reached.
    pub percent: f64,
    /// From the root on.
    pub path: Vec<String>,
    /// Blocks of which kind it mostly is.
    pub mostly: String,
    /// All of that kind there.
    pub of_these: Amount,
}

/// A path from a root to blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathReport {
    /// From the root on; the last is what was asked for.
    pub steps: Vec<PathStep>,
    /// The blocks whose shortest paths are like this, of those that were looked at.
    pub amount: Amount,
}

/// A root or blocks on a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathStep {
    /// As in the tree.
    pub name: String,
    /// Blocks in a row that have this name.
    pub blocks: u64,
    /// Where in the last of them the pointer to the next step lies.
    pub offset: Option<u64>,
}
