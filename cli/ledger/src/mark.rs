//! Moments that are worth a name.

use serde::{Deserialize, Serialize};

/// A moment that was kept on request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// Milliseconds since counting began.
    pub at_ms: u64,
    /// Why it was marked.
    pub why: String,
}
