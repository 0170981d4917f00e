//! What a recording says in words: JSON, so that a later version can say more and an earlier one
//! still reads what it knows.

use serde::{Deserialize, Serialize};

use crate::{ledger::About, symbols::printable::printable};

/// What the session was, as far as it is known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heading {
    /// Whose, when, how.
    pub about: About,
    /// Which frames the user looks past.
    pub hide_frames: Vec<String>,
    /// When the disk took nothing, in milliseconds since counting began: of these times there are no
    /// events, only sums at the end of each.
    pub holes: Vec<[u64; 2]>,
    /// Whether it came to its end.
    pub is_final: bool,
}

/// A moment that somebody wanted to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// Since counting began.
    pub at_ms: u64,
    /// Why.
    pub why: String,
}

impl Heading {
    /// Makes all text in it fit for a terminal.
    pub fn clean(&mut self) {
        let About { command, version, outcome, blind, missing_symbols, ends, .. } = &mut self.about;
        for text in [command, version, outcome].into_iter().chain(blind).chain(missing_symbols) {
            *text = printable(text);
        }
        *ends = std::mem::take(ends).into_iter().map(|(end, n)| (printable(&end), n)).collect();
    }
}
