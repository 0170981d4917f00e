//! Processes that a signal ended: a leak check of a program that crashed is not the whole story.

use heapattach_ledger::{ExitReport, signal_name};
use serde::Serialize;

use super::unchecked::program;
use crate::{Outcome, Report};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Killed {
    /// Its process.
    pub pid: i32,
    /// Its file name.
    pub program: String,
    /// The signal, by name.
    pub signal: String,
    /// Whether a core file was written.
    pub core_dumped: bool,
    /// Whether it is the program that was to be checked, not one that this forked.
    pub is_first: bool,
}

impl Killed {
    /// In words, without whose it is.
    pub fn words(&self) -> String {
        let dump = if self.core_dumped { " (core dumped)" } else { "" };
        format!("killed by {}{dump}", self.signal)
    }
}

/// Those of a report: the first process if any signal killed it; of the others those that crashed,
/// since a suite ends its servers and helpers by signals.
pub fn killed(report: &Report) -> Vec<Killed> {
    let others = report.processes.iter().filter(|other| other.pid != report.pid);
    let others = others.filter(|other| other.outcome != Outcome::Execed);
    let all = std::iter::once((true, report)).chain(others.map(|other| (false, other)));
    let one = |(is_first, report): (bool, &Report)| {
        let exit = report.exit?;
        let ExitReport::Signal(signal) = exit else { return None };
        (is_first || exit.is_crash()).then(|| Killed {
            pid: report.pid,
            program: program(report),
            signal: signal_name(signal),
            core_dumped: report.core_dumped,
            is_first,
        })
    };
    all.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(pid: i32, status: i32) -> Report {
        let mut report = Report::new(pid, format!("/bin/p{pid} x"));
        report.outcome = Outcome::Exited;
        report.note_exit(status);
        report
    }

    #[test]
    fn the_first_process_is_told_by_any_signal_and_others_by_crashes() {
        let mut first = ended(1, 15);
        first.processes = vec![ended(2, 15), ended(3, 11 | 0x80), ended(4, 3 << 8), ended(1, 0)];
        let told: Vec<_> = killed(&first).iter().map(|k| (k.pid, k.words())).collect();
        let expected = ["killed by SIGTERM", "killed by SIGSEGV (core dumped)"];
        assert_eq!(told, [(1, expected[0].to_owned()), (3, expected[1].to_owned())]);
        assert!(killed(&ended(1, 11)).iter().all(|killed| killed.is_first));
        assert!(killed(&ended(1, 7 << 8)).is_empty());
    }
}
