//! What was done to the target, and how it is left.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// How the target is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// Nothing was done to it.
    #[default]
    Untouched,
    /// As it was found.
    Restored,
    /// Something of ours is still in it.
    Altered,
}

impl TargetState {
    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Restored => "restored",
            Self::Altered => "altered",
        }
    }
}

impl Display for TargetState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the target was stopped for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoppedFor {
    /// To put the hooks in.
    #[default]
    Attach,
    /// A new module came.
    Module,
    /// To undo everything.
    Detach,
}

/// One stop of the target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StopReport {
    /// What for.
    pub why: StoppedFor,
    /// Threads stopped.
    pub threads: usize,
    /// From the first interruption to the last release.
    pub stopped_us: f64,
}

/// A child forked in mid-session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChildReport {
    /// The child.
    pub pid: i32,
    /// What is left in it.
    pub left: Vec<String>,
}

/// Memory added to the target.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Address space.
    pub reserved: u64,
    /// Memory in use for code, journal and counters.
    pub used: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_written_as_it_is_called() {
        for state in [TargetState::Untouched, TargetState::Restored, TargetState::Altered] {
            let written = serde_json::to_string(&state).unwrap();
            assert_eq!(written, format!("\"{state}\""));
            assert_eq!(serde_json::from_str::<TargetState>(&written).unwrap(), state);
        }
    }
}
