//! The tracing process: it alone stops the target and writes into it. It belongs to no terminal,
//! ignores every signal, and when the command that started it goes away, it finishes the undo.

use std::{
    ffi::OsString,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use heapattach_injector::{
    attach::{self, Failure, PayloadImage},
    target::{Target, start},
};
use heapattach_process::{fault, offspring::Offspring};

use crate::{
    client::{channel::Line, message::Message},
    family,
    fork::{self, exec_status},
    golang,
    own_cost::own_cost,
    runtimes,
    watch::{
        end::End,
        files::Files,
        limits,
        observation::Record,
        options::WatchOptions,
        session_start::{
            announce, bring_up, end_program, reap_soon, refuse, store_for, wait_for_end,
        },
    },
};
use heapattach_recording::Store;
use heapattach_report::{Outcome, Report, Status, TargetState};
use heapattach_text::error_chain::with_causes;

/// What `run` is told.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Whether the programs that it execs are looked at, too.
    pub follow_execs: bool,
    /// The options of each session.
    pub watch: WatchOptions,
}

/// So many programs that a process becomes one after the other are attached to.
const EXECS: usize = 100;

/// Only what was counted before the attach can be told in no time.
const NOTHING_AT_ONCE: &str = "--duration 0 tells what a Go program has counted itself, and this is none: need at \
                               least 1ms";

/// `heapattach -p PID`, in the tracing process.
pub fn attach(
    line: UnixStream,
    target: Target,
    options: &WatchOptions,
    files: Files,
    image: &'static PayloadImage,
) {
    fork::leave_session();
    let mut line = Line::new(line);
    let report = whole_session(&mut line, target, options, files, image);
    line.send(&Message::Finished(Box::new(report)));
}

/// The same for a process that is no command's half, but has forked from a server of sessions: what there is to say it
/// tells itself, and what it is asked comes over the line, whose other end the server holds.
pub fn attach_within(
    line: UnixStream,
    tell: Box<dyn FnMut(&Message) + Send>,
    target: Target,
    options: &WatchOptions,
    files: Files,
    image: &'static PayloadImage,
) -> Report {
    fork::leave_session();
    whole_session(&mut Line::telling(line, tell), target, options, files, image)
}

fn whole_session(
    line: &mut Line,
    target: Target,
    options: &WatchOptions,
    files: Files,
    image: &'static PayloadImage,
) -> Report {
    let at_once = options.duration == Some(Duration::ZERO);
    let go = match options.follow_forks {
        true => None,
        false if at_once => golang::any(&target).or_else(|| Some(Err(NOTHING_AT_ONCE.to_owned()))),
        false => golang::wanted(&target),
    };
    let mut report = if let Some(found) = go {
        go_program(line, &target, found, options, files)
    } else if options.follow_forks {
        family::attach(line, target, options, files, image)
    } else {
        attach_alone(line, target, options, files, image)
    };
    fault::summary();
    report.expense = own_cost();
    report
}

/// A Go program, whose runtime keeps a profile of its own; or why that cannot be read.
fn go_program(
    line: &mut Line,
    target: &Target,
    found: Result<golang::Found, String>,
    options: &WatchOptions,
    files: Files,
) -> Report {
    match found {
        Ok(found) => golang::observe(line, target, found, options, files, golang::PERIOD),
        Err(why) => {
            let path = files.store.and_then(|store| store.path);
            let _ = path.map(std::fs::remove_file);
            let mut report = Report::new(target.process.pid(), target.process.command());
            report.error = Some(why);
            (report.outcome, report.status) = (Outcome::Refused, Status::Unsupported);
            report.target = TargetState::Untouched;
            report
        }
    }
}

/// One process, which is not traced meanwhile. If it becomes another program, that is attached to
/// as soon as it is noticed.
fn attach_alone(
    line: &mut Line,
    target: Target,
    options: &WatchOptions,
    files: Files,
    image: &'static PayloadImage,
) -> Report {
    let pid = target.process.pid();
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let Files { store, stacks, mut blocks } = files;
    let (mut target, mut store, mut options) = (target, store, options.clone());
    let mut earlier: Vec<Report> = Vec::new();
    loop {
        // A Go program that calls C has two heaps.
        let go = golang::Beside::begin(&target, &options);
        let (mut report, ending) = {
            let stacks = stacks.as_ref().map(|stacks| stacks.of_program(earlier.len()));
            let files = Files { store: store.take(), stacks, blocks: blocks.take() };
            attach_once(line, &target, &options, files, image)
        };
        match go {
            Ok(go) => {
                if let Some(mut told) = go.finish(&options) {
                    // It is one process: what was done to it is said of both.
                    let worst = told.target.max(report.target);
                    (told.target, report.target) = (worst, worst);
                    if told.status == Status::Left {
                        report.status = Status::Left;
                        report.left.extend(told.left.iter().cloned());
                        report.error = report.error.take().or_else(|| told.error.clone());
                    }
                    earlier.extend(ending.is_some().then_some(told));
                }
            }
            Err(None) => {}
            Err(Some(why)) => report.blind.push(format!("the heap of Go: {why}")),
        }
        let again = (ending == Some(End::Execed) && earlier.len() < EXECS)
            .then(|| start::open_started(pid).ok());
        let Some(next) = again.flatten() else {
            report.processes = earlier;
            return report;
        };
        earlier.push(report);
        target = next;
        options.duration = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let record = &options.record;
        store = match record.is_by_default {
            true => store_for(&target, record.prefix.as_deref()),
            false => None,
        };
        store = store.or_else(|| Store::anonymous().ok());
    }
}

fn attach_once(
    line: &mut Line,
    target: &Target,
    options: &WatchOptions,
    files: Files,
    image: &'static PayloadImage,
) -> (Report, Option<End>) {
    let Files { store, stacks, blocks } = files;
    let mut report = Report::new(target.process.pid(), target.process.command());
    let path = store.as_ref().and_then(|store| store.path.clone());
    let record = Record::new(target, store, stacks).telling(blocks);
    let attached = limits::check_headroom(&target.process)
        .map_err(|refusal| Failure::clean(refusal, false))
        .and_then(|()| attach::attach(target, image, options.for_engine(), None));
    match attached {
        Ok(mut session) => {
            announce(line, &session, &report, path);
            let before = Offspring::of(&target.process);
            let ending = record.observe(line, &mut session, options, &mut report);
            let came = Offspring::of(&target.process).zip(before);
            let came = came.and_then(|(now, before)| now.since(before));
            report.not_looked_at = came.map(|came| family::not_followed(&came));
            (report, Some(ending))
        }
        Err(failure) => {
            refuse(&mut report, &failure);
            // Nothing was recorded.
            let _ = path.map(std::fs::remove_file);
            (report, None)
        }
    }
}

/// `heapattach run`, in the tracing process: it is the program's parent.
pub fn run(line: UnixStream, options: &RunOptions, files: Files, image: &'static PayloadImage) {
    let mut line = Line::new(line);
    let mut report =
        Report::new(0, options.command.join(" ".as_ref()).to_string_lossy().into_owned());
    report.status = Status::RunFailed;
    let program = match fork::fork_program(&options.command) {
        Ok(program) => program,
        Err(error) => {
            report.error = Some(format!("the program could not be forked: {error}"));
            line.send(&Message::Finished(Box::new(report)));
            return;
        }
    };
    fork::leave_session();
    report.pid = program.pid;
    line.send(&Message::Started(program.pid));
    let ended = if !options.follow_execs {
        run_alone(&mut line, &program, &options.watch, &mut report, files, image)
    } else {
        family::watch(&mut line, &program, &options.watch, &mut report, files, image)
    };
    if ended.is_err()
        && let Some(errno) = program.exec_error()
    {
        let name = options.command[0].to_string_lossy().into_owned();
        report.error = Some(format!("`{name}` cannot be executed: {}", errno.desc()));
        report.status = exec_status(errno);
    }
    fault::summary();
    report.expense = own_cost();
    line.send(&Message::Finished(Box::new(report)));
}

/// Attached to at its start, and not traced any more then.
fn run_alone(
    line: &mut Line,
    program: &fork::Waiting,
    options: &WatchOptions,
    report: &mut Report,
    files: Files,
    image: &'static PayloadImage,
) -> Result<(), start::StartError> {
    match bring_up(program) {
        Ok(target) => {
            run_target(line, &target, options, report, files, image);
            Ok(())
        }
        Err(error) => {
            report.error = Some(with_causes(&error));
            reap_soon(program.pid);
            Err(error)
        }
    }
}

fn run_target(
    line: &mut Line,
    target: &Target,
    options: &WatchOptions,
    report: &mut Report,
    files: Files,
    image: &'static PayloadImage,
) {
    let held = match start::hold_at_start(target) {
        Ok(held) => held,
        Err(start::StartError::Ended) => {
            // It ended by itself before its first instruction: that is its own status.
            let exit = wait_for_end(line, target).map(|status| report.note_exit(status));
            report.outcome = Outcome::Exited;
            report.status = exit.map_or(Status::RunFailed, |exit| Status::from(exit.shell_code()));
            return;
        }
        Err(error) => {
            report.error = Some(with_causes(&error));
            end_program(target.process.pid());
            return;
        }
    };
    let Files { store, stacks, .. } = files;
    let record = &options.record;
    let store = match record.is_by_default {
        true => store_for(target, record.prefix.as_deref()).or(store),
        false => store,
    };
    if runtimes::go_program::instead(report.pid).is_some() {
        drop(held);
        let files = Files { store, stacks, blocks: None };
        return golang::run(line, target, options, report, files);
    }
    let path = store.as_ref().and_then(|store| store.path.clone());
    let record = Record::new(target, store, stacks).seen_from_start();
    match attach::attach(target, image, options.for_engine(), Some(held)) {
        Ok(mut session) => {
            announce(line, &session, report, path);
            let ending = record.observe(line, &mut session, options, report);
            if ending != End::Ended {
                line.send(&Message::Detached);
            }
            if let Some(status) = wait_for_end(line, target) {
                let exit = report.note_exit(status);
                report.status = report.status_of_run(exit);
                if ending == End::Ended {
                    report.why = None;
                }
            }
        }
        Err(failure) => {
            refuse(report, &failure);
            report.status = Status::RunFailed;
            end_program(target.process.pid());
        }
    }
}
