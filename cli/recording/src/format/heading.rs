//! What a recording says in words: JSON, so that a later version can say more and an earlier one
//! still reads what it knows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use heapattach_ledger::{About, RecordedOutcome};
use heapattach_profile::{Births, KernelCalls, ticks};
use heapattach_text::{printable::printable, quantity::time};

/// What is known of a time in which the disk took nothing, if it is within what is told.
pub const IN_SUMS: &str = "what came and went is in the sums alone";

/// What the session was, as far as it is known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heading {
    /// Which process was recorded, when, and how.
    pub about: About,
    /// Which frames the user looks past.
    pub hide_frames: Vec<String>,
    /// When the disk took nothing, in milliseconds since counting began: of these times there are no
    /// events, only sums at the end of each.
    pub holes: Vec<[u64; 2]>,
    /// Of the rows that have most in use at the end, by their numbers, when these blocks were allocated.
    /// Only at the end of a whole session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub births: Vec<(u32, Births)>,
    /// The same of those that have most still mapped: when these pages were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub page_births: Vec<(u32, Births)>,
    /// What rows asked the kernel for, of those that asked for most. Only at the end of a whole session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<(u32, KernelCalls)>,
    /// Whether it came to its end.
    pub is_final: bool,
}

impl Heading {
    /// A time from `begin` to `end`, in ticks, in which the disk took nothing.
    pub fn hole(&self, begin: u64, end: u64) -> Option<[u64; 2]> {
        let at = |ms: u64| ticks(Duration::from_millis(ms));
        let mut all = self.holes.iter();
        all.find(|[from, to]| at(*from) < end && at(*to) >= begin).copied()
    }

    /// What is to be said of such times, of a session that is told from its beginning to its end.
    pub fn note_on_holes(&self) -> Option<String> {
        self.hole(0, u64::MAX).map(|hole| note_on_hole(hole, IN_SUMS))
    }

    /// Makes all text in it fit for a terminal.
    pub fn clean(&mut self) {
        let About { command, version, outcome, blind, missing_symbols, unhooked, types, .. } =
            &mut self.about;
        let kinds = unhooked.iter_mut().map(|one| &mut one.kind);
        let classes = types.iter_mut().filter_map(|one| one.class.as_mut());
        let other = match outcome {
            RecordedOutcome::Other(text) => Some(text),
            RecordedOutcome::None | RecordedOutcome::Known(_) => None,
        };
        let all = [command, version].into_iter().chain(other).chain(blind).chain(missing_symbols);
        for text in all.chain(kinds).chain(classes) {
            *text = printable(text);
        }
    }
}

/// What is to be said of a time in which the disk took nothing, of which `told` says what is known.
pub fn note_on_hole(hole: [u64; 2], told: &str) -> String {
    let [from, to] = hole.map(|at| time(Duration::from_millis(at)));
    format!("the disk accepted nothing from {from} to {to}: {told}")
}
