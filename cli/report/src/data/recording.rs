//! What became of the recording.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The file of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecordingReport {
    /// The path of the file.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
    /// If it could not be written to its end: up to when, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReport>,
    /// Its disk takes nothing any more, and may not give anything either.
    pub hangs: bool,
}

/// A recording that ends before its session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CutReport {
    /// Nothing was written any more from so long after its beginning on, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// Why nothing more was written.
    pub why: String,
}
