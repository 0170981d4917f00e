//! Programs that were to be checked and were not: they must not pass for clean.

use serde::Serialize;

use crate::{Outcome, Report, TargetState};

/// One of them, or several that nothing is known of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// Its process; 0 for several.
    pub pid: i32,
    /// Its file name, or how many they are.
    pub program: String,
    /// What stood against it.
    pub why: String,
}

/// All of them in a report and those in it.
pub fn unchecked(report: &Report) -> Vec<Unchecked> {
    // What others became, others were told of; the last one is what it is.
    let others = report.processes.iter().filter(|other| other.outcome != Outcome::Execed);
    let all = std::iter::once(report).chain(others);
    let one = |report: &Report| Unchecked {
        pid: report.pid,
        program: program(report),
        why: report.error.as_ref().or(report.why.as_ref()).cloned().unwrap_or_default(),
    };
    let mut unchecked: Vec<Unchecked> = all.filter(|report| is_open(report)).map(one).collect();
    // Where children are not followed it is not their check that was asked for.
    if let Some(not) = &report.not_looked_at {
        let program = format!("{} processes", not.count.unwrap_or_default());
        unchecked.push(Unchecked { pid: 0, program, why: not.why.clone() });
    }
    unchecked
}

/// Whether it should have been checked: what has a checker of its own, or was to be left out, or
/// ended before its first instruction, was not meant.
fn is_open(report: &Report) -> bool {
    let is_meant = match report.outcome {
        Outcome::Aside | Outcome::Skipped => false,
        Outcome::Exited => report.target != TargetState::Untouched,
        Outcome::Detached
        | Outcome::Execed
        | Outcome::Refused
        | Outcome::Failed
        | Outcome::Interrupted
        | Outcome::Shared => true,
    };
    report.check.is_none() && is_meant
}

/// The file name of its program, or what its title begins with.
pub fn program(report: &Report) -> String {
    let program = report.command.split(' ').next().unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default().trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckReport, NotLookedAt};

    fn report(pid: i32, outcome: Outcome, target: TargetState) -> Report {
        Report {
            outcome,
            target,
            why: Some("so".to_owned()),
            ..Report::new(pid, format!("/bin/p{pid} x"))
        }
    }

    #[test]
    fn what_could_not_be_checked_is_named_and_what_was_not_to_be_is_not() {
        let mut first = report(1, Outcome::Exited, TargetState::Restored);
        first.check = Some(CheckReport::default());
        first.processes = vec![
            report(2, Outcome::Exited, TargetState::Restored),
            report(3, Outcome::Exited, TargetState::Untouched),
            report(4, Outcome::Execed, TargetState::Restored),
            report(5, Outcome::Aside, TargetState::Untouched),
            report(6, Outcome::Skipped, TargetState::Untouched),
            report(7, Outcome::Refused, TargetState::Untouched),
            report(8, Outcome::Failed, TargetState::Untouched),
        ];
        let named: Vec<_> = unchecked(&first).into_iter().map(|one| one.program).collect();
        assert_eq!(named, ["p2", "p7", "p8"]);
        assert_eq!(unchecked(&report(9, Outcome::Execed, TargetState::Restored))[0].program, "p9");
    }

    #[test]
    fn processes_beyond_the_limit_are_not_clean() {
        let mut first = report(1, Outcome::Execed, TargetState::Restored);
        first.not_looked_at = Some(NotLookedAt { count: Some(3), why: "more".to_owned() });
        assert_eq!(unchecked(&first)[1].program, "3 processes");
    }
}
