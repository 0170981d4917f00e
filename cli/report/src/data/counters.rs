//! What the allocators of a process count, and what could be set otherwise.

use std::collections::BTreeMap;

use heapattach_census::counters::Statistics;
use heapattach_verdict::advice::{Advice, Conditions};
use serde::{Deserialize, Serialize};

use super::Status;

/// The name of its JSON.
pub const COUNTERS_SCHEMA: &str = "heapattach/allocator/1";

/// The result of `allocator`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CountersReport {
    /// The name of this form.
    pub schema: &'static str,
    /// The process.
    pub pid: i32,
    /// Its command line.
    pub command: String,
    /// How it went: the exit status of the command.
    pub status: Status,
    /// Why there is no result, or not all of it.
    pub error: Option<String>,
    /// The process and its machine.
    pub process: Conditions,
    /// Microseconds that the look took.
    pub look_us: f64,
    /// What was done on request, after that.
    pub applied: Option<AppliedReport>,
    /// The allocators that were recognised.
    pub allocators: Vec<CountedReport>,
}

/// An allocator.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CountedReport {
    /// What it counts.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// By setting: where its value comes from, if not built in.
    pub origins: BTreeMap<String, Origin>,
    /// What grew since the look before, if there was one.
    pub rates: Option<RatesReport>,
    /// What could be set otherwise.
    pub advice: Vec<Advice>,
}

/// What was done on request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AppliedReport {
    /// Its name: `purge`, `trim`, `arena-max=N`, `dirty_decay_ms=N`, `background_thread=true`.
    pub remedy: String,
    /// How it went.
    pub status: Status,
    /// Why it was refused, or failed.
    pub error: Option<String>,
    /// The resident set before.
    pub before: u64,
    /// By how much it was to fall, if that is known.
    pub foretold: Option<u64>,
    /// The resident set afterwards.
    pub after: u64,
    /// Ranges of pages that were given up, and their bytes.
    pub ranges: u64,
    /// See `ranges`.
    pub bytes: u64,
    /// Ranges for which there was no time.
    pub left: u64,
    /// How often the process was stopped until no thread was in the middle of a change.
    pub attempts: u64,
    /// Microseconds that it was stopped, in all.
    pub stopped_us: f64,
    /// The call that a thread of the process made.
    pub call: Option<String>,
    /// Microseconds that it took, at most.
    pub call_us: Option<f64>,
    /// The setting before, as it is typed.
    pub setting_before: Option<String>,
    /// The same afterwards.
    pub setting_after: Option<String>,
}

impl AppliedReport {
    /// The same, that failed.
    #[must_use]
    pub fn failed(self, status: Status, error: String) -> Self {
        Self { status, error: Some(error), ..self }
    }
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Chosen when it was built.
    CompiledIn,
    /// Of a variable of the program.
    Program,
    /// Of the link `/etc/malloc.conf`.
    ConfigurationLink,
    /// Of an environment variable, by its name.
    Environment(String),
}

/// What grew.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RatesReport {
    /// In so many seconds.
    pub seconds: f64,
    /// By name, a second.
    pub per_second: BTreeMap<String, f64>,
}

impl CountersReport {
    /// Of a process.
    pub fn new(pid: i32, command: String) -> Self {
        Self { schema: COUNTERS_SCHEMA, pid, command, ..Self::default() }
    }

    /// The same, that failed.
    #[must_use]
    pub fn failed(self, status: Status, error: String) -> Self {
        Self { status, error: Some(error), ..self }
    }
}

impl RatesReport {
    /// What grew between two looks.
    pub fn of(before: &Statistics, now: &Statistics, seconds: f64) -> Self {
        let old = before.counted();
        let grown = now.counted().into_iter().filter_map(|(name, number)| {
            let grown = number.saturating_sub(old.get(&name).copied().unwrap_or(0));
            (grown > 0).then(|| (name, grown as f64 / seconds.max(1e-3)))
        });
        Self { seconds, per_second: grown.collect() }
    }

    /// One of them, 0 if it did not grow.
    pub fn get(&self, name: &str) -> f64 {
        self.per_second.get(name).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_grew_in_a_second() {
        let of = |nmalloc| {
            let mut statistics = Statistics::default();
            statistics.stats.insert("nmalloc", nmalloc);
            statistics
        };
        let rates = RatesReport::of(&of(100), &of(400), 2.0);
        assert!((rates.get("nmalloc") - 150.0).abs() < 1e-9);
        assert!(RatesReport::of(&of(400), &of(400), 2.0).per_second.is_empty());
    }
}
