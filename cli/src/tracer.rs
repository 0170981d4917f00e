//! The tracing process: it alone stops the target and writes into it. It belongs to no terminal,
//! ignores every signal, and when the command that started it goes away, it finishes the undo.

use std::{os::unix::net::UnixStream, time::Instant};

use heapattach_injector::{
    options::Options,
    session::{
        attach::{self},
        failure::Failure,
    },
    trace::{start, target::Target},
};
use heapattach_process::{fault, offspring::Offspring};

use crate::{
    args::{AttachArgs, RunArgs},
    own_cost::own_cost,
    payload,
};
use crate::{
    client::{channel::Line, message::Message},
    exit_status::Exit,
    family,
    fork::{self, exec_exit},
    watch::{
        end::End,
        files::Files,
        hook_counts::with_causes,
        limits,
        observation::Record,
        session_start::{
            announce, bring_up, end_program, options, reap_soon, refuse, store_for, wait_for_end,
        },
    },
};
use heapattach_ledger::ExitReport;
use heapattach_recording::Store;
use heapattach_report::{Outcome, Report};

/// So many programs that a process becomes one after the other are attached to.
const EXECS: usize = 100;

/// `heapattach -p PID`, in the tracing process.
pub fn attach(line: UnixStream, target: Target, args: &AttachArgs, files: Files) {
    fork::leave_session();
    let mut line = Line::new(line);
    let mut report = if args.session.follow_forks {
        family::attach(&mut line, target, &args.session, files)
    } else {
        attach_alone(&mut line, target, args, files)
    };
    fault::summary();
    report.expense = own_cost();
    line.send(&Message::Finished(Box::new(report)));
}

/// One process, which is not traced meanwhile. If it becomes another program, that is attached to
/// as soon as it is noticed.
fn attach_alone(line: &mut Line, target: Target, args: &AttachArgs, files: Files) -> Report {
    let pid = target.process.pid();
    let deadline = args.session.duration.map(|duration| Instant::now() + duration);
    let Files { store, stacks } = files;
    let (mut target, mut store, mut args) = (target, store, args.clone());
    let mut earlier: Vec<Report> = Vec::new();
    loop {
        let (mut report, ending) = {
            let stacks = stacks.as_ref().map(|stacks| stacks.of_program(earlier.len()));
            attach_once(line, &target, &args, Files { store: store.take(), stacks })
        };
        let again = (ending == Some(End::Execed) && earlier.len() < EXECS)
            .then(|| start::open_started(pid).ok());
        let Some(next) = again.flatten() else {
            report.processes = earlier;
            return report;
        };
        earlier.push(report);
        target = next;
        args.session.duration = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        store = if args.session.records_by_default() { store_for(&target) } else { None };
        store = store.or_else(|| Store::anonymous().ok());
    }
}

fn attach_once(
    line: &mut Line,
    target: &Target,
    args: &AttachArgs,
    files: Files,
) -> (Report, Option<End>) {
    let Files { store, stacks } = files;
    let mut report = Report::new(target.process.pid(), target.process.command());
    let path = store.as_ref().and_then(|store| store.path.clone());
    let record = Record::new(target, store, stacks);
    let options =
        Options { loader: args.loader.into(), force: args.force, ..options(&args.session) };
    let attached = limits::check_headroom(&target.process)
        .map_err(|refusal| Failure::clean(refusal, false))
        .and_then(|()| {
            attach::attach(target, payload::image_for(args.session.flow), options, None)
        });
    match attached {
        Ok(mut session) => {
            announce(line, &session, &report, path);
            let before = Offspring::of(&target.process);
            let ending = record.observe(line, &mut session, &args.session, &mut report);
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
pub fn run(line: UnixStream, args: &RunArgs, files: Files) {
    let mut line = Line::new(line);
    let mut report = Report::new(0, args.command.join(" ".as_ref()).to_string_lossy().into_owned());
    report.status = Exit::RunFailed.code();
    let program = match fork::fork_program(&args.command) {
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
    let ended = if args.no_follow_exec {
        run_alone(&mut line, &program, args, &mut report, files)
    } else {
        family::watch(&mut line, &program, args, &mut report, files)
    };
    if ended.is_err()
        && let Some(errno) = program.exec_error()
    {
        let name = args.command[0].to_string_lossy().into_owned();
        report.error = Some(format!("`{name}` cannot be executed: {}", errno.desc()));
        report.status = exec_exit(errno).code();
    }
    fault::summary();
    report.expense = own_cost();
    line.send(&Message::Finished(Box::new(report)));
}

/// Attached to at its start, and not traced any more then.
fn run_alone(
    line: &mut Line,
    program: &fork::Waiting,
    args: &RunArgs,
    report: &mut Report,
    files: Files,
) -> Result<(), start::StartError> {
    match bring_up(program) {
        Ok(target) => {
            run_target(line, &target, args, report, files);
            Ok(())
        }
        Err(error) => {
            report.error = Some(with_causes(&error));
            reap_soon(program.pid);
            Err(error)
        }
    }
}

fn run_target(line: &mut Line, target: &Target, args: &RunArgs, report: &mut Report, files: Files) {
    let held = match start::hold_at_start(target) {
        Ok(held) => held,
        Err(start::StartError::Ended) => {
            // It ended by itself before its first instruction: that is its own status.
            report.exit = wait_for_end(line, target);
            report.outcome = Outcome::Exited;
            report.status = report.exit.map_or(Exit::RunFailed.code(), ExitReport::shell_code);
            return;
        }
        Err(error) => {
            report.error = Some(with_causes(&error));
            end_program(target.process.pid());
            return;
        }
    };
    let Files { store, stacks } = files;
    let store = if args.session.records_by_default() { store_for(target).or(store) } else { store };
    let path = store.as_ref().and_then(|store| store.path.clone());
    let record = Record::new(target, store, stacks).seen_from_start();
    let image = payload::image_for(args.session.flow);
    match attach::attach(target, image, options(&args.session), Some(held)) {
        Ok(mut session) => {
            announce(line, &session, report, path);
            let ending = record.observe(line, &mut session, &args.session, report);
            if ending != End::Ended {
                line.send(&Message::Detached);
            }
            if let Some(exit) = wait_for_end(line, target) {
                report.exit = Some(exit);
                report.status = report.status_of_run(exit, Exit::RunFailed.code());
                if ending == End::Ended {
                    report.why = None;
                }
            }
        }
        Err(failure) => {
            refuse(report, &failure);
            report.status = Exit::RunFailed.code();
            end_program(target.process.pid());
        }
    }
}
