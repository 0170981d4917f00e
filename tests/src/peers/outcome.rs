//! A whole run, as it is written down and read again.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    book::{Book, Failure, Row},
    goals::{self, Goal},
};

/// The form of `peers.json`.
const SCHEMA: &str = "heapattach/peers/1";

/// A run.
#[derive(Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// The form of this file.
    pub schema: String,
    /// The machine, and the versions of all tools.
    pub machine: BTreeMap<String, String>,
    /// How often each measurement was repeated.
    pub rounds: u32,
    /// What settled the order of the tools.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// What was wanted and what was got.
    pub goals: Vec<Goal>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What could not be.
    pub failures: Vec<Failure>,
}

impl Outcome {
    pub(super) fn new(
        book: &Book,
        machine: BTreeMap<String, String>,
        (rounds, seed): (u32, u64),
        seconds: f64,
    ) -> Self {
        let rows = book.rows();
        let goals = goals::judge(&rows);
        let failures = book.failures().to_vec();
        Self { schema: SCHEMA.to_owned(), machine, rounds, seed, seconds, goals, rows, failures }
    }

    /// Reads one that was written.
    ///
    /// # Errors
    /// If there is none, or it is of another form.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let outcome: Self = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no result: {error}", path.display()))?;
        if outcome.schema == SCHEMA {
            return Ok(outcome);
        }
        Err(format!("{} is of the form {}; need {SCHEMA}", path.display(), outcome.schema))
    }

    /// The row of this kind.
    #[must_use]
    pub fn row(&self, part: &str, work: &str, tool: &str, figure: &str) -> Option<&Row> {
        self.rows.iter().find(|row| {
            (&*row.part, &*row.work, &*row.tool, &*row.figure) == (part, work, tool, figure)
        })
    }
}
