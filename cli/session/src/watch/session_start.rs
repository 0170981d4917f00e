//! How a session begins, by whichever command: what the engine is told, the program that is started and
//! waited for, and what is said of a session that began or did not.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use heapattach_injector::{
    attach::{self, AttachError, Failure, Options},
    target::{StopError, Stopped, Target, reap, start},
    watch::Session,
};

use crate::{
    client::{
        channel::{Heard, Line},
        message::Message,
    },
    fork,
    runtimes::go_program,
    watch::limits,
};
use heapattach_recording::Store;
use heapattach_report::{Outcome, Report, Status, TargetState};
use heapattach_text::error_chain::with_causes;

/// Lets the forked child exec, under our eyes.
pub fn bring_up(program: &fork::Waiting) -> Result<Target, start::StartError> {
    let waiter = heapattach_injector::target::Waiter::new().map_err(start::StartError::Request)?;
    start::seize(program.pid)?;
    program.go().map_err(|_| start::StartError::Ended)?;
    start::wait_for_exec(program.pid, &waiter)?;
    start::open_started(program.pid)
}

/// The session of a check.
///
/// # Errors
/// As [`attach::attach`].
pub fn begin<'t>(
    target: &'t Target,
    image: &'t heapattach_injector::attach::PayloadImage,
    options: Options,
    held: Option<Stopped<'t>>,
) -> Result<Session<'t>, Failure> {
    limits::check_headroom(&target.process).map_err(|refusal| Failure::clean(refusal, false))?;
    attach::attach(target, image, options, held)
}

/// A program that cannot be watched must not run unwatched under our name.
pub fn end_program(pid: i32) {
    let pid_of = nix::unistd::Pid::from_raw(pid);
    let _ = nix::sys::signal::kill(pid_of, nix::sys::signal::Signal::SIGKILL);
    reap_soon(pid);
}

/// Takes the status of a program that is about to end.
pub fn reap_soon(pid: i32) {
    for _ in 0..1000 {
        if reap(pid).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How the program ended, as wait(2) says; `None` if the command is gone first.
pub fn wait_for_end(line: &mut Line, target: &Target) -> Option<i32> {
    loop {
        target.release_late();
        if let Some(status) = reap(target.process.pid()) {
            return Some(status);
        }
        if line.listen(target, Duration::from_millis(50)) == Some(Heard::Gone) {
            return None;
        }
    }
}

/// A file that the user has not named, if there can be one.
pub fn store_for(target: &Target, prefix: Option<&Path>) -> Option<Store> {
    let pid = target.process.pid();
    let created = match prefix {
        Some(prefix) => heapattach_recording::create_prefixed(prefix, pid),
        None => heapattach_recording::create_for(&target.process.status().ok()?.name, pid),
    };
    let (path, file) = created.ok()?;
    Some(Store { path: Some(path), file })
}

/// Tells that a session begins.
pub fn announce(
    line: &mut Line,
    session: &Session<'_>,
    report: &Report,
    recording: Option<PathBuf>,
) {
    let stopped: Duration = session.stops.iter().map(|stop| stop.cost.stopped).sum();
    line.send(&Message::Attached {
        pid: report.pid,
        command: session.target().process.command(),
        functions: session.patches.hooks.iter().filter(|h| h.number.is_some()).count(),
        stopped_us: stopped.as_secs_f64() * 1e6,
        recording,
    });
}

/// Writes down why there was no session.
pub fn refuse(report: &mut Report, failure: &Failure) {
    report.error = Some(with_causes(&*failure.error));
    report.outcome = Outcome::Refused;
    report.target = if failure.touched { TargetState::Restored } else { TargetState::Untouched };
    report.status = match &*failure.error {
        AttachError::Stop(StopError::Unwanted) => Status::Interrupted,
        AttachError::Refused(refusal) if refusal.unsupported => Status::Unsupported,
        AttachError::Refused(_) => Status::Refused,
        _ if !failure.touched => Status::Refused,
        _ => Status::Failed,
    };
    // What helps where hooks do not.
    if report.status == Status::Unsupported
        && let Some(instead) = go_program::instead(report.pid)
    {
        report.error = Some(instead);
    }
    if let Some(left) = &failure.left {
        report.target = TargetState::Altered;
        report.left.clone_from(&left.what);
        report.status = Status::Left;
    }
}
