//! How a session ends, and what the report says of that.

use std::os::fd::AsFd;

use heapattach_injector::{detach::Detached, target::Target, watch::Session};
use heapattach_process::proc::pidfd;
use nix::sys::signal::Signal;

use crate::watch::hook_counts::add_detach;
use heapattach_ledger::ExitReport;
use heapattach_report::{Outcome, Report, Status, TargetState, Trigger};

/// Why a session ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// As long as asked for.
    Over,
    /// The user pressed Ctrl-C, or the command is gone.
    Asked,
    /// A guard rail.
    Objection(String),
    /// What was waited for came.
    Reached(Trigger),
    /// The target became another program.
    Execed,
    /// The target ended.
    Ended,
}

/// Writes down how it ended.
pub fn conclude(session: &Session<'_>, ending: &End, report: &mut Report) {
    let target = session.target();
    let (outcome, why, status) = match ending {
        End::Over => (Outcome::Detached, None, Status::Done),
        End::Asked => (Outcome::Detached, Some("interrupted".to_owned()), Status::Interrupted),
        End::Objection(why) => (Outcome::Detached, Some(why.clone()), Status::Done),
        End::Reached(trigger) => (Outcome::Detached, Some(trigger.to_string()), Status::Done),
        End::Execed => {
            (Outcome::Execed, Some("the target became another program".to_owned()), Status::Done)
        }
        End::Ended => {
            (Outcome::Exited, Some(last_words(target, session, report)), Status::TargetDied)
        }
    };
    report.outcome = outcome;
    report.why = why;
    report.status = status;
    if report.target == TargetState::Altered {
        report.status = Status::Left;
    }
}

/// A session without a result.
pub fn fail(report: &mut Report, detached: &Detached, why: &str) {
    add_detach(report, detached);
    report.error = Some(why.to_owned());
    let is_left = report.target == TargetState::Altered;
    report.status = if is_left { Status::Left } else { Status::Failed };
}

/// How a process ended that is no child of ours, as wait(2) would say; where the kernel tells it.
pub fn last_status(target: &Target) -> Option<i32> {
    target.process.pidfd().and_then(|fd| pidfd::exit_status(fd.as_fd()).ok())
}

/// How the target ended, and whether we were near.
fn last_words(target: &Target, session: &Session<'_>, report: &mut Report) -> String {
    if let (None, Some(status)) = (report.exit, last_status(target)) {
        report.note_exit(status);
    }
    words(report.exit, session.stops.len())
}

fn words(exit: Option<ExitReport>, stops: usize) -> String {
    let how = match exit {
        Some(ExitReport::Code(code)) => format!("it exited with status {code}"),
        Some(ExitReport::Signal(signal)) => format!("{} ended it", signal_name(signal)),
        None => "it ended; how is not known".to_owned(),
    };
    format!("{how}; it was running at the time, not stopped by us ({stops} stops before)")
}

/// Its number and name; what one alone does not tell, too.
fn signal_name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(Signal::SIGKILL) => {
            "signal 9 (SIGKILL: sent by a process, or by the kernel when memory ran out)".to_owned()
        }
        Ok(signal) => format!("signal {number} ({signal})"),
        Err(_) => format!("signal {number}"),
    }
}

/// A parent knows how the process ended, by wait(2), which nothing told when its session did.
pub fn correct(report: &mut Report, status: Option<i32>) {
    let Some(status) = status else { return };
    let before = report.exit;
    let exit = Some(report.note_exit(status));
    if exit != before && report.outcome == Outcome::Exited && report.why.is_some() {
        report.why = Some(words(exit, report.stops.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_becomes_known_later_is_told_as_it_was() {
        let why = Some(words(None, 2));
        let mut report = Report { outcome: Outcome::Exited, why, ..Report::default() };
        correct(&mut report, Some(11 | 0x80));
        let told = report.why.clone().unwrap();
        assert!(told.starts_with("signal 11 (SIGSEGV) ended it; "), "{told}");
        correct(&mut report, None);
        assert_eq!(report.exit, Some(ExitReport::Signal(11)));
        assert!(report.core_dumped);
        correct(&mut report, Some(3 << 8));
        assert!(!report.core_dumped);
        let told = report.why.unwrap();
        assert!(told.starts_with("it exited with status 3; "), "{told}");
    }
}
