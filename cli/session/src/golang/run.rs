//! `run -- PROGRAM` of a Go program without a C library: its own profile is read while it runs.

use std::time::{Duration, Instant};

use heapattach_injector::target::Target;
use heapattach_report::{Outcome, Report, Status, TargetState};

use super::{Found, found::wanted};
use crate::{
    client::{channel::Line, message::Message},
    watch::{files::Files, options::WatchOptions, session_start::wait_for_end},
};

/// Between two readings: it may end soon.
const OFTEN: Duration = Duration::from_millis(20);
/// So long may the runtime take to begin.
const BEGINS: Duration = Duration::from_secs(2);

/// Reads it until it ends; it is not stopped. Whether it could be read.
pub fn follow(
    line: &mut Line,
    target: &Target,
    options: &WatchOptions,
    report: &mut Report,
    files: Files,
) -> bool {
    let path = files.store.as_ref().and_then(|store| store.path.clone());
    let told = match started(target) {
        Ok(Some(found)) => super::observe(line, target, found, options, files, OFTEN),
        Ok(None) => {
            let _ = path.map(std::fs::remove_file);
            let mut report = Report::new(report.pid, String::new());
            report.outcome = Outcome::Exited;
            let why = "all of it: the program ended before its runtime had begun to sample";
            report.blind = vec![why.to_owned()];
            report
        }
        Err(why) => {
            let _ = path.map(std::fs::remove_file);
            let mut report = Report::new(report.pid, String::new());
            report.error = Some(why);
            (report.outcome, report.status) = (Outcome::Refused, Status::Unsupported);
            report
        }
    };
    let (pid, command, target) = (report.pid, report.command.clone(), TargetState::Untouched);
    *report = Report { pid, command, target: told.target.max(target), ..told };
    if report.outcome == Outcome::Exited {
        report.why = None;
    }
    report.error.is_none()
}

/// The same of a program that is not followed through its execs; and writes down how it ended.
pub fn run(
    line: &mut Line,
    target: &Target,
    options: &WatchOptions,
    report: &mut Report,
    files: Files,
) {
    let is_read = follow(line, target, options, report, files);
    if report.outcome != Outcome::Exited {
        line.send(&Message::Detached);
    }
    let Some(status) = wait_for_end(line, target) else { return };
    let exit = report.note_exit(status);
    report.status = if is_read { report.status_of_run(exit) } else { Status::RunFailed };
}

/// Its profile, once its runtime has begun; none if it has ended by then.
fn started(target: &Target) -> Result<Option<Found>, String> {
    let end = Instant::now() + BEGINS;
    loop {
        let found = wanted(target);
        match found {
            Some(Ok(found)) => return Ok(Some(found)),
            _ if !target.process.is_alive() => return Ok(None),
            _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            Some(Err(why)) => return Err(why),
            None => return Err("it became another program".to_owned()),
        }
    }
}
