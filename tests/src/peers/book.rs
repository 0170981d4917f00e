//! All that was measured: samples, and why some are missing.

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use crate::measure::Spread;

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Which part of the run.
    pub part: String,
    /// What was done.
    pub work: String,
    /// By or under which tool.
    pub tool: String,
    /// What was measured.
    pub figure: String,
    /// In what it is told.
    pub unit: String,
    /// Measurements of one round belong together.
    pub round: u32,
    /// How much.
    pub value: f64,
}

/// What could not be measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Failure {
    /// As in [`Sample`].
    pub part: String,
    /// As in [`Sample`].
    pub work: String,
    /// As in [`Sample`].
    pub tool: String,
    /// Why.
    pub why: String,
}

/// What samples of one kind say together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// As in [`Sample`].
    pub part: String,
    /// As in [`Sample`].
    pub work: String,
    /// As in [`Sample`].
    pub tool: String,
    /// As in [`Sample`].
    pub figure: String,
    /// As in [`Sample`].
    pub unit: String,
    /// Median and quartiles.
    pub spread: Spread,
}

/// The samples of a run.
#[derive(Clone, Debug, Default)]
pub struct Book {
    samples: Vec<Sample>,
    failures: Vec<Failure>,
}

/// Where a measurement belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) part: &'a str,
    pub(super) work: &'a str,
    pub(super) tool: &'a str,
}

impl Book {
    pub(super) fn note(&mut self, at: Place<'_>, figure: Figure, round: u32, value: f64) {
        // A ratio to nothing says nothing.
        if value.is_finite() {
            let [part, work, tool] = [at.part, at.work, at.tool].map(str::to_owned);
            let (figure, unit) = (figure.name.to_owned(), figure.unit.to_owned());
            self.samples.push(Sample { part, work, tool, figure, unit, round, value });
        }
    }

    pub(super) fn fail(&mut self, at: Place<'_>, why: &str) {
        let [part, work, tool] = [at.part, at.work, at.tool].map(str::to_owned);
        let failure = Failure { part, work, tool, why: why.to_owned() };
        eprintln!("failed: {}, {}, {}: {why}", at.part, at.work, at.tool);
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// All samples, in the order of their making.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// What could not be measured.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The samples by what they measure, in the order in which each was first measured.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut groups: Vec<(&Sample, Vec<f64>)> = Vec::new();
        for sample in &self.samples {
            match groups.iter_mut().find(|(first, _)| first.is_of_the_kind_of(sample)) {
                Some((_, values)) => values.push(sample.value),
                None => groups.push((sample, vec![sample.value])),
            }
        }
        let row = |(of, values): (&Sample, Vec<f64>)| Row {
            part: of.part.clone(),
            work: of.work.clone(),
            tool: of.tool.clone(),
            figure: of.figure.clone(),
            unit: of.unit.clone(),
            spread: Spread::of(values),
        };
        groups.into_iter().map(row).collect()
    }
}

impl Sample {
    fn is_of_the_kind_of(&self, other: &Self) -> bool {
        (&self.part, &self.work, &self.tool, &self.figure)
            == (&other.part, &other.work, &other.tool, &other.figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_kind_become_one_row() {
        let mut book = Book::default();
        let plain = Place { part: "race", work: "a", tool: "plain" };
        for (round, value) in [(0, 3.0), (1, 1.0), (2, 2.0)] {
            book.note(plain, Figure::CPU, round, value);
            book.note(Place { tool: "other", ..plain }, Figure::CPU, round, value * 2.0);
        }
        book.note(plain, Figure::TIMES, 0, f64::NAN);
        let rows = book.rows();
        let told: Vec<_> = rows.iter().map(|row| (&*row.tool, row.spread.median)).collect();
        assert_eq!(told, [("plain", 2.0), ("other", 4.0)]);
    }

    #[test]
    fn the_same_failure_is_told_once() {
        let mut book = Book::default();
        let at = Place { part: "race", work: "a", tool: "plain" };
        book.fail(at, "no such program");
        book.fail(at, "no such program");
        assert_eq!(book.failures().len(), 1);
    }
}
