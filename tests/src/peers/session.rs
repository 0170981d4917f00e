//! A session of heapattach on a program that works.

use nix::sys::signal::Signal;

use crate::{
    attached::Attached,
    command::{Heapattach, Hooks, Running},
    deadline::{PATIENCE, poll},
    report::Report,
};

/// A session, attached.
#[derive(Debug)]
pub(super) struct Session {
    command: Running,
}

impl Session {
    /// Attaches.
    pub(super) fn open(pid: i32, options: &[&str]) -> Result<Self, String> {
        let command = Attached::command(pid, Hooks::Auto);
        let command =
            options.iter().fold(command, |command: Heapattach, option| command.arg(*option));
        let mut command = command.start();
        let told = poll(PATIENCE, || {
            let told = Attached::is_told(&command.talk());
            (told || !command.is_running()).then_some(told)
        });
        if told == Some(true) { Ok(Self { command }) } else { Err(command.talk()) }
    }

    /// Detaches, unless the program has ended, and returns the report.
    pub(super) fn end(mut self) -> Result<Report, String> {
        if self.command.is_running() {
            self.command.signal(Signal::SIGINT);
        }
        let outcome = self.command.wait();
        let report: Report = serde_json::from_str(&outcome.stdout)
            .map_err(|error| format!("no report ({error}): {}", outcome.stderr))?;
        let is_well = match &*report.outcome {
            "detached" => report.target == "restored" && report.left.is_empty(),
            "exited" => true,
            _ => false,
        };
        if is_well { Ok(report) } else { Err(outcome.stderr) }
    }
}

/// Records that a session dropped.
#[expect(clippy::cast_precision_loss, reason = "some millions")]
pub(super) fn lost(report: &Report) -> f64 {
    report.heap.lost.values().sum::<u64>() as f64
}
