//! How much of the blocks in use is known by its type, and how certain that is.

use heapattach_reach::Amount;
use serde::{Deserialize, Serialize};

/// How much has a name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TypedReport {
    /// Blocks in use.
    pub in_use: Amount,
    /// Those that say their class themselves.
    pub certain: Amount,
    /// Those that pointers of a declared type lead to.
    pub declared: Amount,
    /// Those that have the form of a container.
    pub shape: Amount,
    /// Those that are only known by the place of the pointers to them.
    pub place: Amount,
    /// Blocks that pointers of different types lead to: they have no name.
    pub disputed: u64,
    /// These places, those of most bytes first.
    pub places: Vec<PlaceRow>,
    /// Why some may be missing.
    pub missing: Option<String>,
    /// Why nothing is told.
    pub error: Option<String>,
    /// Milliseconds that it took.
    pub took_ms: f64,
}

/// Blocks that are known by their place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlaceRow {
    /// In what, and how far: `in Conn+0x98`.
    pub name: String,
    /// They.
    pub amount: Amount,
}
