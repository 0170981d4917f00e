//! Sessions on disk, or on their way there.

#![allow(dead_code, reason = "the report of a file is to come")]

mod block;
mod changes;
mod error;
mod snapshot;
mod wire;

use std::{ops::Range, path::Path, time::Duration};

pub use error::RecordingError;

use crate::ledger::{Ledger, Moment};

/// A recording, opened.
#[derive(Debug)]
pub struct Recording {
    moments: Vec<Moment>,
    marks: Vec<Mark>,
}

/// A moment that somebody wanted to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Since counting began.
    pub at_ms: u64,
    /// Why.
    pub why: String,
}

impl Recording {
    /// Opens a file and reads what it says of itself.
    ///
    /// # Errors
    /// If it is none of ours, or damaged from the beginning on.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Err(RecordingError::Alien(path.to_owned()))
    }

    /// What was found, in all or in a part of the time: as if the session had been no longer.
    pub fn ledger(&self, _window: Option<Range<Duration>>) -> Ledger {
        Ledger::default()
    }

    /// The course of time.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Moments that somebody wanted to be kept.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// What is wrong with the end of the file; what is before is whole.
    pub fn damage(&self) -> Option<&str> {
        None
    }
}
