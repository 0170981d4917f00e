//! Before and after: whether a fixture bears a trace.

use std::fs;

use crate::{
    deadline::{PATIENCE, wait_until},
    fingerprint::{Fingerprint, Scope, diff_within},
    fixture::Fixture,
};

/// The signals that only glibc blocks, in a thread that it starts: its own two are among them.
const STARTING: &str = "SigBlk:\tfffffffffffbfeff";

/// A fixture's fingerprint from before, to hold against a later one.
#[derive(Debug)]
pub struct Before {
    print: Fingerprint,
    scope: Scope,
}

impl Before {
    /// Takes the fingerprint of `fixture`, paused for it.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn of(fixture: &mut Fixture) -> Self {
        Self { print: still(fixture), scope: Scope::Exact }
    }

    /// Lets private writable memory come and go.
    #[must_use]
    pub fn loose(mut self) -> Self {
        self.scope = Scope::Loose;
        self
    }

    /// What is different now.
    ///
    /// # Panics
    /// If the fixture is dead or saw wrong results.
    pub fn trace(&self, fixture: &mut Fixture) -> Vec<String> {
        fixture.assert_well();
        diff_within(&self.print, &still(fixture), self.scope)
    }

    /// Panics if anything is different now; `when` completes the message.
    ///
    /// # Panics
    /// If so.
    pub fn assert_equal(&self, fixture: &mut Fixture, when: &str) {
        let trace = self.trace(fixture);
        if !trace.is_empty() {
            fixture.fail(&format!("bears a trace {when}:\n{}\n", trace.join("\n")));
        }
    }
}

/// Whether a thread has not begun yet: on a busy machine that lasts.
fn is_starting(pid: i32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut all = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    all.any(|status| status.contains(STARTING))
}

fn still(fixture: &mut Fixture) -> Fingerprint {
    let pid = fixture.pid();
    wait_until("threads to begin", PATIENCE, || !is_starting(pid));
    fixture.pause();
    let print = Fingerprint::of(fixture.pid());
    let print = print.unwrap_or_else(|error| fixture.fail(&format!("cannot be read: {error}")));
    fixture.resume();
    print
}
