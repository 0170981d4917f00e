//! The functions that were hooked, and those that were not.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// How calls of a function are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookedBy {
    /// At its first instructions.
    Entry,
    /// In every module's word for it.
    Slots,
    /// Not at all.
    #[default]
    Not,
}

impl Display for HookedBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entry => "entry",
            Self::Slots => "slots",
            Self::Not => "not",
        })
    }
}

/// One hooked function.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FunctionReport {
    /// Its best-known name.
    pub function: String,
    /// Other names of the same function.
    pub aliases: Vec<String>,
    /// The module it is in.
    pub module: String,
    /// How its calls are seen.
    pub via: HookedBy,
    /// Why not by its entry, if that was asked for.
    pub why_slots: Option<String>,
    /// How many slots lead to it.
    pub slots: usize,
    /// Calls counted.
    pub calls: u64,
    /// Bytes they requested.
    pub bytes: u64,
    /// By module of the caller, most calls first; only where every call is recorded.
    pub callers: Vec<CallerReport>,
}

/// The callers in one module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallerReport {
    /// The module.
    pub module: String,
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A function that is not hooked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NotHooked {
    /// The function.
    pub function: String,
    /// Its module.
    pub module: String,
    /// Why it is not hooked.
    pub why: String,
}
