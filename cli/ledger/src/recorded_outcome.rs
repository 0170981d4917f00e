//! How a session ended, as its recording says it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Outcome;

/// How a session ended, as its recording says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// It goes on, or the recording ends in the middle: an empty text.
    #[default]
    None,
    /// So.
    Known(Outcome),
    /// A word of another version; a hostile file can have any text here.
    Other(String),
}

impl RecordedOutcome {
    /// As it is written; empty if it goes on.
    pub fn text(&self) -> &str {
        match self {
            Self::None => "",
            Self::Known(outcome) => outcome.name(),
            Self::Other(text) => text,
        }
    }

    /// Whether it goes on, or the recording ends in the middle.
    pub fn is_empty(&self) -> bool {
        *self == Self::None
    }
}

impl From<Outcome> for RecordedOutcome {
    fn from(outcome: Outcome) -> Self {
        Self::Known(outcome)
    }
}

impl From<String> for RecordedOutcome {
    fn from(text: String) -> Self {
        match Outcome::named(&text) {
            Some(outcome) => Self::Known(outcome),
            None if text.is_empty() => Self::None,
            None => Self::Other(text),
        }
    }
}

impl Display for RecordedOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for RecordedOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for RecordedOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_written_again_the_same() {
        let words = Outcome::ALL.map(Outcome::name);
        for text in words.into_iter().chain(["", "ended", "Detached", "\u{1b}[2J"]) {
            let outcome = RecordedOutcome::from(text.to_owned());
            assert_eq!(outcome.text(), text);
            assert_eq!(outcome.is_empty(), text.is_empty());
            let is_known = matches!(outcome, RecordedOutcome::Known(_));
            assert_eq!(is_known, words.contains(&text), "{text}");
        }
    }
}
