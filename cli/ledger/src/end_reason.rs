//! Why a stack goes no further.

use serde::{Deserialize, Serialize};

/// Why a stack goes no further. In files and reports it is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// It is deeper than is recorded.
    Depth,
    /// The next frame makes no sense.
    Implausible,
    /// Code that was loaded a moment ago.
    JustLoaded,
    /// There was no room for another stack.
    NoRoom,
    /// Unwind information that cannot be followed.
    NoRule,
    /// Code without unwind information.
    NoTable,
    /// Memory that is not known to be a stack.
    OffStack,
    /// None: the stack is whole.
    Outermost,
    /// One that this version does not know.
    #[serde(other)]
    Unknown,
}

impl EndReason {
    /// Each of them, in the order of the alphabet.
    pub const ALL: [Self; 9] = [
        Self::Depth,
        Self::Implausible,
        Self::JustLoaded,
        Self::NoRoom,
        Self::NoRule,
        Self::NoTable,
        Self::OffStack,
        Self::Outermost,
        Self::Unknown,
    ];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Implausible => "implausible",
            Self::JustLoaded => "just-loaded",
            Self::NoRoom => "no-room",
            Self::NoRule => "no-rule",
            Self::NoTable => "no-table",
            Self::OffStack => "off-stack",
            Self::Outermost => "outermost",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the stack was followed as far as there is one.
    pub fn is_whole(self) -> bool {
        self == Self::Outermost
    }

    /// Where a stack ends that ends so.
    pub fn place(self) -> &'static str {
        match self {
            Self::Depth => "deeper than --max-depth",
            Self::OffStack => "on a stack that is not known (a coroutine's, a signal handler's)",
            Self::NoTable => "in code without unwind information",
            Self::JustLoaded => "in code that was loaded a moment ago and could not be looked at",
            Self::NoRule => "in code whose unwind information cannot be followed",
            Self::NoRoom => "without room for another stack",
            Self::Outermost | Self::Implausible | Self::Unknown => {
                "where the next frame makes no sense"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_files_in_the_order_of_the_alphabet() {
        for end in EndReason::ALL {
            assert_eq!(serde_json::to_value(end).unwrap(), end.word());
        }
        assert!(EndReason::ALL.is_sorted());
        assert!(EndReason::ALL.is_sorted_by_key(|end| end.word()));
        assert_eq!(serde_json::from_str::<EndReason>("\"else\"").unwrap(), EndReason::Unknown);
    }
}
