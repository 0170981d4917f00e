//! A session of heapattach on a program that the oracle watches too.

use std::{fs, path::PathBuf};

use super::{Comparison, Oracle, Places, RecordedStack, Table, Truth, parse};
use crate::{
    attached::Attached,
    command::{Heapattach, Hooks},
    report::Report,
};

/// The exit code when the target ended before the session.
const TARGET_ENDED: i32 = 5;

/// From an attach on.
#[derive(Debug)]
pub struct Session<'a> {
    oracle: &'a Oracle,
    pid: i32,
    attached: Attached,
    stacks: PathBuf,
    /// Read when it was attached to: modules loaded later are not in it.
    places: Places,
    /// What was noted before anything could be recorded, or, if the program was at work, since
    /// when everything certainly was.
    before: Table,
}

/// What a session leaves.
#[derive(Debug)]
pub struct Ended {
    /// Its report.
    pub report: Report,
    /// What it recorded.
    pub recorded: Vec<RecordedStack>,
    /// And whether that is right.
    pub comparison: Comparison,
}

impl<'a> Session<'a> {
    /// Attaches to a program, which may be at work.
    ///
    /// # Panics
    /// If that does not succeed.
    #[must_use]
    pub fn start(oracle: &'a Oracle, pid: i32) -> Self {
        let stacks = oracle.stacks_file(pid);
        let attached = Attached::open(Self::command(pid, &stacks));
        let attached = attached.unwrap_or_else(|why| panic!("process {pid} {why}"));
        let (places, before) = (oracle.places(pid), oracle.table(pid));
        Self { oracle, pid, attached, stacks, places, before }
    }

    /// The command of such a session.
    #[must_use]
    pub fn command(pid: i32, stacks: &std::path::Path) -> Heapattach {
        let command = Attached::command(pid, Hooks::Auto).arg("--all").arg("--on-full=wait");
        command.arg("--stacks").arg(stacks)
    }

    /// Ends it by Ctrl-C.
    ///
    /// # Panics
    /// If it does not end well, or records are missing.
    #[must_use]
    pub fn end(self) -> Ended {
        self.end_if_whole().unwrap_or_else(|lost| panic!("{lost}"))
    }

    /// The same; on a machine that has no time for the reader records are missing, which is told.
    ///
    /// # Errors
    /// With what is missing.
    ///
    /// # Panics
    /// If it does not end well.
    pub fn end_if_whole(self) -> Result<Ended, String> {
        let until = self.oracle.table(self.pid);
        let report = self.attached.end();
        // Once more: what was recorded after the table was read is in it by now.
        let (all, places) = (self.oracle.table(self.pid), self.oracle.places(self.pid));
        judge(report, &self.stacks, &self.before, &until, &all, &places)
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// If it does not end, or the session not with it.
    #[must_use]
    pub fn end_with_program(self) -> Ended {
        let report = self.attached.into_command().wait().expect(TARGET_ENDED).report();
        assert_eq!(report.outcome, "exited", "{report:?}");
        let all = self.oracle.table(self.pid);
        let ended = judge(report, &self.stacks, &self.before, &all, &all, &self.places);
        ended.unwrap_or_else(|lost| panic!("{lost}"))
    }
}

fn judge(
    report: Report,
    stacks: &PathBuf,
    before: &Table,
    until: &Table,
    all: &Table,
    places: &Places,
) -> Result<Ended, String> {
    if !report.is_complete() {
        return Err(format!("lost: {:?}", report.heap.lost));
    }
    let text = fs::read_to_string(stacks).unwrap_or_else(|e| panic!("{}: {e}", stacks.display()));
    let recorded = parse(&text).unwrap_or_else(|why| panic!("{}: {why}", stacks.display()));
    let certain = until.since(before);
    let truth = Truth { table: all, certain: &certain, places };
    let comparison = Comparison::of(&recorded, truth);
    Ok(Ended { report, recorded, comparison })
}
