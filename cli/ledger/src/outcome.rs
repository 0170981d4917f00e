//! How a session ended.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// How a session ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The time was over, or the user ended the session: the target runs on.
    Detached,
    /// With the target.
    Exited,
    /// The target became another program.
    Execed,
    /// It never began: the target cannot be watched.
    Refused,
    /// It never began, or has no result: something here failed.
    #[default]
    Failed,
    /// Before the target was ever stopped.
    Interrupted,
    /// The target is left to a checker that it was built with.
    Aside,
    /// The user wants the target left out.
    Skipped,
    /// The target shares the memory of its parent, and counts as that.
    Shared,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Detached,
        Self::Exited,
        Self::Execed,
        Self::Refused,
        Self::Failed,
        Self::Interrupted,
        Self::Aside,
        Self::Skipped,
        Self::Shared,
    ];

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Exited => "exited",
            Self::Execed => "execed",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Aside => "aside",
            Self::Skipped => "skipped",
            Self::Shared => "shared",
        }
    }

    /// Whether a program that was started was let run: it is ended if it cannot be watched.
    pub fn was_let_run(self) -> bool {
        match self {
            Self::Refused | Self::Failed => false,
            Self::Detached
            | Self::Exited
            | Self::Execed
            | Self::Interrupted
            | Self::Aside
            | Self::Skipped
            | Self::Shared => true,
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_written_as_it_is_called() {
        for outcome in Outcome::ALL {
            let written = serde_json::to_string(&outcome).unwrap();
            assert_eq!(written, format!("\"{outcome}\""));
            assert_eq!(serde_json::from_str::<Outcome>(&written).unwrap(), outcome);
        }
    }
}
