//! How a check keeps memory while it looks.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// How memory is kept as it was at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LookMethod {
    /// Nothing was looked at.
    #[default]
    #[serde(rename = "")]
    Nothing,
    /// The target is stopped until everything was looked at.
    Stop,
    /// It is copied while the target is stopped.
    Copy,
    /// A copy-on-write clone of the target keeps it.
    Fork,
    /// It is copied while the target runs, and what was written meanwhile again while it is stopped.
    Early,
    /// A core file keeps it.
    Core,
}

impl Display for LookMethod {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "",
            Self::Stop => "stop",
            Self::Copy => "copy",
            Self::Fork => "fork",
            Self::Early => "early",
            Self::Core => "core",
        })
    }
}
