//! A check in the tracing process: of a running process, or of a program from its start through
//! all that it execs.

use std::{ffi::OsString, os::unix::net::UnixStream};

use heapattach_injector::{
    attach::PayloadImage,
    family::{Attendant, ExitWatch},
    moment::sanitizer,
    target::{Stopped, Target, start},
};
use heapattach_process::fault;

use crate::{
    check::{
        End, Inspection, note_end,
        options::{CheckOptions, When},
        snapshot_choice, step_aside,
    },
    client::{channel::Line, message::Message},
    family,
    fork::{self, exec_status},
    watch::{end, session_start},
};
use heapattach_report::{Report, Status, suppression::Suppressions};
use heapattach_symbols::FileCache;
use heapattach_text::error_chain::with_causes;

/// So many programs that a process becomes one after the other are checked.
const EXECS: usize = 100;

/// `heapattach check -p PID`.
pub fn attach(
    line: UnixStream,
    target: &Target,
    options: &CheckOptions,
    rules: &Suppressions,
    image: &'static PayloadImage,
) {
    fork::leave_session();
    let mut line = Line::new(line);
    let mut report = Report::new(target.process.pid(), target.process.command());
    let page_cost = fork::fork_time().and_then(snapshot_choice::page_cost);
    // What it reads of files comes from a disk, which is waited for while nothing is attached to.
    let mut inspection = Inspection::new(options, rules, (target, FileCache::default()), false)
        .with_page_cost(page_cost);
    match session_start::begin(target, image, options.for_engine(), None) {
        Ok(mut session) => {
            session_start::announce(&mut line, &session, &report, None);
            match inspection.run(&mut line, &mut session, None, &mut report) {
                Some(End::Gone) => {
                    report.status = Status::TargetDied;
                    if let Some(status) = end::last_status(target) {
                        report.note_exit(status);
                    }
                }
                Some(End::Execed) => report.why = Some(EXECED.to_owned()),
                _ => {}
            }
        }
        Err(failure) => session_start::refuse(&mut report, &failure),
    }
    fault::summary();
    line.send(&Message::Finished(Box::new(report)));
}

const EXECED: &str = "it became another program before it could be";

/// `heapattach check -- COMMAND`: this process is the program's parent.
pub fn run(
    line: UnixStream,
    command: &[OsString],
    options: &CheckOptions,
    rules: &Suppressions,
    image: &'static PayloadImage,
) {
    let mut line = Line::new(line);
    let mut report = Report::new(0, command.join(" ".as_ref()).to_string_lossy().into_owned());
    report.status = Status::RunFailed;
    match fork::fork_program(command) {
        Ok(program) => {
            fork::leave_session();
            report.pid = program.pid;
            line.send(&Message::Started(program.pid));
            if options.follow_forks {
                let ended =
                    family::check(&mut line, &program, (options, rules, image), &mut report);
                if ended.is_err() {
                    note_exec_error(program, command, &mut report);
                }
                fault::summary();
                return line.send(&Message::Finished(Box::new(report)));
            }
            match session_start::bring_up(&program) {
                Ok(target) => {
                    let files = FileCache::default();
                    let course = Course { line: &mut line, options, rules, image, files };
                    report = course.run(target, report);
                }
                Err(error) => {
                    report.error = Some(with_causes(&error));
                    session_start::reap_soon(program.pid);
                    note_exec_error(program, command, &mut report);
                }
            }
        }
        Err(error) => report.error = Some(format!("the program could not be forked: {error}")),
    }
    fault::summary();
    line.send(&Message::Finished(Box::new(report)));
}

/// Why the program could not be executed, if it could not.
fn note_exec_error(program: fork::Waiting, command: &[OsString], report: &mut Report) {
    if let Some(errno) = program.exec_error() {
        let name = command[0].to_string_lossy().into_owned();
        report.error = Some(format!("`{name}` cannot be executed: {}", errno.desc()));
        report.status = exec_status(errno);
    }
}

/// A program on its way through what it execs.
struct Course<'a> {
    line: &'a mut Line,
    options: &'a CheckOptions,
    rules: &'a Suppressions,
    image: &'static PayloadImage,
    /// What was read of the files of all programs.
    files: FileCache,
}

/// What becomes of a program that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is another one now, and stands before its first instruction.
    Execed,
    /// It runs to its end, if it is not there already.
    Runs,
    /// It was ended.
    Ended,
}

impl Course<'_> {
    /// From its first exec, where it stands, to its end.
    fn run(mut self, first: Target, report: Report) -> Report {
        let (mut target, mut report) = (first, report);
        let mut earlier: Vec<Report> = Vec::new();
        let mut next = self.look(&target, true, &mut report);
        while next == Next::Execed {
            let pid = report.pid;
            let Ok(other) = start::open_started(pid) else { break };
            target = other;
            let successor = Report::new(pid, target.process.command());
            earlier.push(std::mem::replace(&mut report, successor));
            if earlier.len() > EXECS {
                report.why = Some(format!("it became more than {EXECS} programs"));
                self.let_run(&target);
                break;
            }
            next = self.look(&target, false, &mut report);
        }
        if next != Next::Ended
            && let Some(status) = session_start::wait_for_end(self.line, &target)
        {
            report.status = Status::from(report.note_exit(status).shell_code());
        }
        report.processes = earlier;
        report
    }

    /// One program, which stands at its exec.
    fn look(&mut self, target: &Target, is_first: bool, report: &mut Report) -> Next {
        let held = match start::hold_at_start(target) {
            Ok(held) => held,
            Err(error) => return self.give_up(target, is_first, with_causes(&error), report),
        };
        if let Some(name) = sanitizer::of(target) {
            held.finish();
            step_aside(name, report);
            return Next::Runs;
        }
        let watched = match self.options.when {
            When::Signal(signal) => Some(signal),
            When::Exit | When::ExitStart | When::Exec => None,
        };
        let exit_watch = match ExitWatch::begin(target, watched) {
            Ok(exit_watch) => exit_watch,
            Err(errno) => {
                drop(held);
                let what = format!("the program cannot be kept traced: {}", errno.desc());
                return self.give_up(target, is_first, what, report);
            }
        };
        self.inspect(target, held, exit_watch, is_first, report)
    }

    fn inspect<'t>(
        &mut self,
        target: &'t Target,
        held: Stopped<'t>,
        mut exit_watch: ExitWatch<'t>,
        is_first: bool,
        report: &mut Report,
    ) -> Next {
        let marked = match self.options.when {
            When::ExitStart => exit_watch.mark("exit"),
            When::Exec => exit_watch.mark("execve"),
            _ => Ok(()),
        };
        let mut inspection =
            Inspection::new(self.options, self.rules, (target, self.files.clone()), true);
        match session_start::begin(target, self.image, self.options.for_engine(), Some(held)) {
            Ok(mut session) => {
                session_start::announce(self.line, &session, report, None);
                report.status = Status::Done;
                let end =
                    inspection.run(self.line, &mut session, Some(Box::new(exit_watch)), report);
                if let (Err(why), Some(check)) = (marked, &mut report.check) {
                    let what = format!("checked at its end, not when it was to be: {why}");
                    check.blind.push(what);
                }
                note_end(end, report);
                if end == Some(End::Execed) { Next::Execed } else { Next::Runs }
            }
            Err(failure) => {
                session_start::refuse(report, &failure);
                report.status = Status::RunFailed;
                Box::new(exit_watch).finish();
                if is_first {
                    session_start::end_program(target.process.pid());
                    return Next::Ended;
                }
                Next::Runs
            }
        }
    }

    /// A program that cannot be watched must not run unwatched under our name; what it became by
    /// itself is its own affair.
    fn give_up(&self, target: &Target, is_first: bool, why: String, report: &mut Report) -> Next {
        report.error = Some(why);
        if is_first {
            report.status = Status::RunFailed;
            session_start::end_program(target.process.pid());
            return Next::Ended;
        }
        self.let_run(target);
        Next::Runs
    }

    fn let_run(&self, target: &Target) {
        if let Ok(stop) = Stopped::adopt(target, target.process.pid()) {
            stop.finish();
        }
    }
}
