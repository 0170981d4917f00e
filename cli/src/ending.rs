//! How a session ends, and what the report says of that.

use std::os::fd::AsFd;

use heapattach_injector::{
    proc::pidfd,
    session::{Detached, Session},
    target::Target,
};

use crate::{
    compose::add_detach,
    exit::Exit,
    report::{ExitReport, Report},
};

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As long as asked for.
    Over,
    /// Somebody pressed Ctrl-C, or the command is gone.
    Asked,
    /// A guard rail.
    Objection(String),
    /// The target became another program.
    Execed,
    /// The target ended.
    Ended,
}

/// Writes down how it ended.
pub fn conclude(session: &Session<'_>, ending: &End, report: &mut Report) {
    let target = session.target();
    let (outcome, why, exit) = match ending {
        End::Over => ("detached", None, Exit::Done),
        End::Asked => ("detached", Some("interrupted".to_owned()), Exit::Interrupted),
        End::Objection(why) => ("detached", Some(why.clone()), Exit::Done),
        End::Execed => ("execed", Some("the target became another program".to_owned()), Exit::Done),
        End::Ended => ("exited", Some(last_words(target, session, report)), Exit::TargetDied),
    };
    report.outcome = outcome.to_owned();
    report.why = why;
    report.status = exit.code();
    if report.target == "altered" {
        report.status = Exit::Left.code();
    }
}

/// A session without a result.
pub fn fail(report: &mut Report, detached: &Detached, why: &str) {
    add_detach(report, detached);
    report.error = Some(why.to_owned());
    let is_left = report.target == "altered";
    report.status = if is_left { Exit::Left } else { Exit::Failed }.code();
}

/// How the target ended, and whether we were near.
fn last_words(target: &Target, session: &Session<'_>, report: &mut Report) -> String {
    let status = target.process.pidfd().and_then(|fd| pidfd::exit_status(fd.as_fd()).ok());
    let exit = status.map(ExitReport::from_wait);
    report.exit = report.exit.or(exit);
    let how = match exit {
        Some(ExitReport::Code(code)) => format!("it exited with status {code}"),
        Some(ExitReport::Signal(signal)) => format!("signal {signal} ended it"),
        None => "it ended; how is not known".to_owned(),
    };
    let stops = session.stops.len();
    format!("{how}; it was running at the time, not stopped by us ({stops} stops before)")
}
