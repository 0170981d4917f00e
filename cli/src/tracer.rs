//! The tracing process: it alone stops the target and writes into it. It belongs to no terminal,
//! ignores every signal, and when the command that started it goes away, it finishes the undo.

use std::{
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use heapattach_injector::{
    asked::Asked,
    attach::{self, Options},
    failure::{AttachError, Failure},
    fault,
    loader::Loader,
    mailbox::Service,
    offspring::Offspring,
    proc::Process,
    session::Session,
    start,
    stopped::Stopped,
    target::Target,
    wait::reap,
};

use crate::{
    args::{AttachArgs, OnFull, RunArgs, SessionArgs, Unwind},
    compose::with_causes,
    ending::End,
    exit::Exit,
    expense::Expense,
    guard, household,
    line::{Heard, Line},
    message::Message,
    observation::Record,
    payload,
    recording::{self, Store},
    report::{ExitReport, Report},
    spawn::{self, exec_exit},
    symbols::demangle,
};

/// So many programs that a process becomes one after the other are attached to.
const EXECS: usize = 100;

/// How often a thread looks for room in a full ring before it gives up: some seconds.
const WAITS: u32 = 250_000_000;

/// `heapattach -p PID`, in the tracing process.
pub fn attach(line: UnixStream, target: Target, args: &AttachArgs, store: Option<Store>) {
    spawn::leave_session();
    let mut line = Line::new(line);
    let mut report = if args.session.follow_forks {
        household::attach(&mut line, target, &args.session, store)
    } else {
        attach_alone(&mut line, target, args, store)
    };
    fault::summary();
    report.expense = Expense::own();
    line.send(&Message::Finished(Box::new(report)));
}

/// One process, which is not traced meanwhile. If it becomes another program, that is attached to
/// as soon as it is noticed.
fn attach_alone(
    line: &mut Line,
    target: Target,
    args: &AttachArgs,
    store: Option<Store>,
) -> Report {
    let pid = target.process.pid();
    let deadline = args.session.duration.map(|duration| Instant::now() + duration);
    let (mut target, mut store, mut args) = (target, store, args.clone());
    let mut earlier: Vec<Report> = Vec::new();
    loop {
        let (mut report, ending) = attach_once(line, &target, &args, store.take());
        let again = (ending == Some(End::Execed) && earlier.len() < EXECS)
            .then(|| Process::open(pid).and_then(Target::open).ok());
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
    store: Option<Store>,
) -> (Report, Option<End>) {
    let mut report = Report::new(target.process.pid(), target.process.command());
    let path = store.as_ref().and_then(|store| store.path.clone());
    let shared = store.as_ref().and_then(|store| store.share().ok());
    let record = Record::new(target, store);
    let options =
        Options { loader: args.loader.into(), force: args.force, ..options(&args.session) };
    let attached = guard::check_headroom(&target.process)
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
            report.not_looked_at = came.map(|came| household::not_followed(&came));
            household::sum_up(&mut report, shared.as_ref());
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
pub fn run(line: UnixStream, args: &RunArgs, store: Option<Store>) {
    let mut line = Line::new(line);
    let mut report = Report::new(0, args.command.join(" ".as_ref()).to_string_lossy().into_owned());
    report.status = Exit::RunFailed.code();
    let program = match spawn::fork_program(&args.command) {
        Ok(program) => program,
        Err(error) => {
            report.error = Some(format!("the program could not be forked: {error}"));
            line.send(&Message::Finished(Box::new(report)));
            return;
        }
    };
    spawn::leave_session();
    report.pid = program.pid;
    line.send(&Message::Started(program.pid));
    let ended = if args.no_follow_exec {
        run_alone(&mut line, &program, args, &mut report, store)
    } else {
        household::watch(&mut line, &program, args, &mut report, store)
    };
    if ended.is_err()
        && let Some(errno) = program.exec_error()
    {
        let name = args.command[0].to_string_lossy().into_owned();
        report.error = Some(format!("`{name}` cannot be executed: {}", errno.desc()));
        report.status = exec_exit(errno).code();
    }
    fault::summary();
    report.expense = Expense::own();
    line.send(&Message::Finished(Box::new(report)));
}

/// Attached to at its start, and not traced any more then.
fn run_alone(
    line: &mut Line,
    program: &spawn::Waiting,
    args: &RunArgs,
    report: &mut Report,
    store: Option<Store>,
) -> Result<(), start::StartError> {
    match bring_up(program) {
        Ok(target) => {
            run_target(line, &target, args, report, store);
            Ok(())
        }
        Err(error) => {
            report.error = Some(with_causes(&error));
            reap_soon(program.pid);
            Err(error)
        }
    }
}

/// Lets the forked child exec, under our eyes.
pub fn bring_up(program: &spawn::Waiting) -> Result<Target, start::StartError> {
    let waiter = heapattach_injector::wait::Waiter::new().map_err(start::StartError::Request)?;
    start::seize(program.pid)?;
    program.go().map_err(|_| start::StartError::Ended)?;
    start::wait_for_exec(program.pid, &waiter)?;
    start::open_started(program.pid)
}

fn run_target(
    line: &mut Line,
    target: &Target,
    args: &RunArgs,
    report: &mut Report,
    store: Option<Store>,
) {
    let held = match start::hold_at_start(target) {
        Ok(held) => held,
        Err(start::StartError::Ended) => {
            // It ended by itself before its first instruction: that is its own status.
            report.exit = wait_for_end(line, target);
            report.outcome = "exited".to_owned();
            report.status = report.exit.map_or(Exit::RunFailed.code(), ExitReport::shell_code);
            return;
        }
        Err(error) => {
            report.error = Some(with_causes(&error));
            end_program(target.process.pid());
            return;
        }
    };
    let store = if args.session.records_by_default() { store_for(target).or(store) } else { store };
    let path = store.as_ref().and_then(|store| store.path.clone());
    let record = Record::new(target, store);
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
                report.status = exit.shell_code();
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

/// The session of a check.
///
/// # Errors
/// As [`attach::attach`].
pub fn begin<'t>(
    target: &'t Target,
    image: &'t heapattach_injector::payload_image::PayloadImage,
    options: Options,
    held: Option<Stopped<'t>>,
) -> Result<Session<'t>, Failure> {
    guard::check_headroom(&target.process).map_err(|refusal| Failure::clean(refusal, false))?;
    attach::attach(target, image, options, held)
}

/// A program that cannot be watched must not run unwatched under our name.
pub fn end_program(pid: i32) {
    let pid_of = nix::unistd::Pid::from_raw(pid);
    let _ = nix::sys::signal::kill(pid_of, nix::sys::signal::Signal::SIGKILL);
    reap_soon(pid);
}

pub fn reap_soon(pid: i32) {
    for _ in 0..1000 {
        if reap(pid).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How the program ended; `None` if the command is gone first, and nobody wants to know.
pub fn wait_for_end(line: &mut Line, target: &Target) -> Option<ExitReport> {
    loop {
        target.release_late();
        if let Some(status) = reap(target.process.pid()) {
            return Some(ExitReport::from_wait(status));
        }
        if line.listen(target, Duration::from_millis(50)) == Some(Heard::Gone) {
            return None;
        }
    }
}

/// What the engine is told.
pub fn options(args: &SessionArgs) -> Options {
    let default_bits = if args.interval() <= 1 { 15 } else { 11 };
    Options {
        mode: args.hooks.hooks.into(),
        max_memory: args.max_memory.unwrap_or(0),
        interval: args.interval(),
        ring_bits: args.ring.unwrap_or(default_bits),
        ring_patience: if args.on_full == OnFull::Wait { WAITS } else { 0 },
        pages: !args.no_mmap,
        tables: args.unwind != Unwind::FramePointer,
        copies: args.unwind == Unwind::Copy,
        most_frames: args.hooks.max_depth,
        verify: args.verify,
        loader: Loader::Map,
        force: false,
        asked: Asked::new(args.hooks.hook.clone(), demangle::demangle),
        python: args.python.into(),
        service: Service::Marks,
    }
}

/// A file that nobody has named, if there can be one.
pub fn store_for(target: &Target) -> Option<Store> {
    let name = target.process.status().ok()?.name;
    let (path, file) = recording::create_for(&name, target.process.pid()).ok()?;
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
    report.outcome = "refused".to_owned();
    report.target = if failure.touched { "restored" } else { "untouched" }.to_owned();
    report.status = match &*failure.error {
        AttachError::Refused(refusal) if refusal.unsupported => Exit::Unsupported,
        AttachError::Refused(_) => Exit::Refused,
        _ if !failure.touched => Exit::Refused,
        _ => Exit::Failed,
    }
    .code();
    if let Some(left) = &failure.left {
        report.target = "altered".to_owned();
        report.left.clone_from(&left.what);
        report.status = Exit::Left.code();
    }
}
