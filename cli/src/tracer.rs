//! The tracing process: it alone stops the target and writes into it. It belongs to no terminal,
//! ignores every signal, and when the command that started it goes away, it finishes the undo.

use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use heapattach_injector::{
    attach::{self, AttachError, Failure, Options},
    fault, heartbeat,
    proc::{maps, pidfd},
    session::{Session, Watch},
    start,
    stopped::Stopped,
    target::Target,
    wait::reap,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    args::{AttachArgs, OnFull, RunArgs, SessionArgs},
    compose::{add_detach, blind_spots, compose, with_causes},
    exit::Exit,
    guard::{self, Guard},
    message::Message,
    payload,
    recorder::Recorder,
    report::{ExitReport, Report},
    site_report::heap_report,
    spawn::{self, exec_exit},
    symbols::Symbols,
};

/// The link map is looked at so often, unless looking takes long itself.
const WATCH: Duration = Duration::from_millis(40);
const PROGRESS: Duration = Duration::from_millis(500);
/// How often new threads are looked for.
const THREADS: Duration = Duration::from_millis(20);

/// How often a thread looks for room in a full ring before it gives up: about a second.
const WAITS: u32 = 50_000_000;
/// Slowing down goes on from here, if everything was recorded until then.
const LEAST_INTERVAL: u64 = 4096;

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
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

/// The line to the command.
struct Line(UnixStream);

impl Line {
    fn send(&mut self, message: &Message) {
        // A command that is gone hears nothing; its end is noticed by the poll.
        if let Ok(mut text) = serde_json::to_vec(message) {
            text.push(b'\n');
            let _ = self.0.write_all(&text);
        }
    }

    /// Waits up to `time` for the command to say something, or the target to end; answers what the
    /// command said, if anything.
    fn listen(&mut self, target: &Target, time: Duration) -> Option<Heard> {
        let mut fds = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if let Some(pidfd) = target.process.pidfd() {
            fds.push(PollFd::new(pidfd.as_fd(), PollFlags::POLLIN));
        }
        let millis = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(millis));
        let spoke = fds[0].revents().is_some_and(|events| !events.is_empty());
        drop(fds);
        match spoke.then(|| self.0.read(&mut [0])) {
            None => None,
            Some(Ok(1..)) => Some(Heard::Detach),
            Some(Ok(0) | Err(_)) => Some(Heard::Gone),
        }
    }
}

/// What the command said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// It wants the session to end.
    Detach,
    /// It ended.
    Gone,
}

/// `heapattach -p PID`, in the tracing process.
pub fn attach(line: UnixStream, target: &Target, args: &AttachArgs) {
    spawn::leave_session();
    let mut line = Line(line);
    let mut report = Report::new(target.process.pid(), target.process.command());
    let image = payload::image();
    let options = options(&args.session);
    let record = Record::new(target);
    let attached = guard::check_headroom(&target.process)
        .map_err(|refusal| Failure::clean(refusal, false))
        .and_then(|()| attach::attach(target, &image, options, None));
    match attached {
        Ok(mut session) => {
            announce(&mut line, &session, &report);
            record.observe(&mut line, &mut session, &args.session, &mut report);
        }
        Err(failure) => refuse(&mut report, &failure),
    }
    fault::summary();
    line.send(&Message::Finished(Box::new(report)));
}

/// `heapattach run`, in the tracing process: it is the program's parent.
pub fn run(line: UnixStream, args: &RunArgs) {
    let mut line = Line(line);
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
    let pid = program.pid;
    report.pid = pid;
    line.send(&Message::Started(pid));
    match bring_up(&program) {
        Ok(target) => run_target(&mut line, &target, args, &mut report),
        Err(error) => {
            report.error = Some(with_causes(&error));
            reap_soon(pid);
            if let Some(errno) = program.exec_error() {
                let name = args.command[0].to_string_lossy().into_owned();
                report.error = Some(format!("`{name}` cannot be executed: {}", errno.desc()));
                report.status = exec_exit(errno).code();
            }
        }
    }
    fault::summary();
    line.send(&Message::Finished(Box::new(report)));
}

/// Lets the forked child exec, under our eyes.
fn bring_up(program: &spawn::Waiting) -> Result<Target, start::StartError> {
    let waiter = heapattach_injector::wait::Waiter::new().map_err(start::StartError::Request)?;
    start::seize(program.pid)?;
    program.go().map_err(|_| start::StartError::Ended)?;
    start::wait_for_exec(program.pid, &waiter)?;
    start::open_started(program.pid)
}

fn run_target(line: &mut Line, target: &Target, args: &RunArgs, report: &mut Report) {
    let image = payload::image();
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
    let record = Record::new(target);
    match attach_held(target, &image, args, held) {
        Ok(mut session) => {
            announce(line, &session, report);
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

fn attach_held<'t>(
    target: &'t Target,
    image: &'t heapattach_injector::payload_image::PayloadImage,
    args: &RunArgs,
    held: Stopped<'t>,
) -> Result<Session<'t>, Failure> {
    attach::attach(target, image, options(&args.session), Some(held))
}

/// A program that cannot be watched must not run unwatched under our name.
fn end_program(pid: i32) {
    let pid_of = nix::unistd::Pid::from_raw(pid);
    let _ = nix::sys::signal::kill(pid_of, nix::sys::signal::Signal::SIGKILL);
    reap_soon(pid);
}

fn reap_soon(pid: i32) {
    for _ in 0..1000 {
        if reap(pid).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How the program ended; `None` if the command is gone first, and nobody wants to know.
fn wait_for_end(line: &mut Line, target: &Target) -> Option<ExitReport> {
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

fn options(args: &SessionArgs) -> Options {
    let default_bits = if args.interval() <= 1 { 15 } else { 11 };
    Options {
        mode: args.hooks.into(),
        max_memory: args.max_memory.unwrap_or(0),
        interval: args.interval(),
        ring_bits: args.ring.unwrap_or(default_bits),
        ring_patience: if args.on_full == OnFull::Wait { WAITS } else { 0 },
        pages: !args.no_mmap,
    }
}

/// What is made of a session.
struct Record {
    symbols: Symbols,
    /// How often modules came or went when they were last noted.
    changes: u64,
    rss: Option<u64>,
}

impl Record {
    /// Begun before the attach: a short program may have ended by its end.
    fn new(target: &Target) -> Self {
        let mut record = Self { symbols: Symbols::new(), changes: 0, rss: resident(target) };
        record.note(target);
        record
    }

    fn note(&mut self, target: &Target) {
        let text = target.process.read("maps").unwrap_or_default();
        if let Ok(maps) = maps::parse(&text) {
            self.symbols.note(&target.process, &maps);
        }
    }

    /// The session and its end: watches, detaches, and writes down what was found.
    fn observe(
        mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        args: &SessionArgs,
        report: &mut Report,
    ) -> End {
        let target = session.target();
        let Some(records) = session.stream.take_records() else { return End::Over };
        let recorder = Recorder::new(records, args.interval() <= 1);
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        thread::scope(|scope| {
            let reading = scope.spawn(|| recorder.follow(memory, &is_over));
            let (ending, counted) = watch(line, session, args, &mut self);
            self.follow(session);
            let rss = self.rss.zip(resident(target)).map(|(before, after)| [before, after]);
            let blind = blind_spots(session);
            let stop_reading = |session: &Session<'_>| {
                is_over.store(true, Relaxed);
                let recorder = reading.join().ok();
                (recorder, session.stream.counts(&target.memory).unwrap_or_default())
            };
            // What goes with the home is read while it is there.
            let (read, detached) = if session.stream.is_private() {
                (stop_reading(session), session.detach())
            } else {
                let detached = session.detach();
                (stop_reading(session), detached)
            };
            let (Some(recorder), counts) = read else {
                report.error = Some("the thread that reads the records failed".to_owned());
                add_detach(report, &detached);
                return ending;
            };
            let (pid, command) = (report.pid, std::mem::take(&mut report.command));
            *report = compose(session, &counts, &recorder, counted);
            report.heap = heap_report(session, &recorder, &mut self.symbols, counts.lost);
            (report.pid, report.command, report.blind, report.rss) = (pid, command, blind, rss);
            add_detach(report, &detached);
            conclude(session, &ending, report);
            ending
        })
    }

    /// Notes new modules, for their symbols.
    fn follow(&mut self, session: &Session<'_>) {
        if session.changes != self.changes {
            self.changes = session.changes;
            self.note(session.target());
        }
    }
}

/// Bytes of memory that the target has in use.
fn resident(target: &Target) -> Option<u64> {
    let text = String::from_utf8(target.process.read("status").ok()?).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn announce(line: &mut Line, session: &Session<'_>, report: &Report) {
    let stopped: Duration = session.stops.iter().map(|stop| stop.cost.stopped).sum();
    line.send(&Message::Attached {
        pid: report.pid,
        command: session.target().process.command(),
        functions: session.patches.hooks.iter().filter(|h| h.number.is_some()).count(),
        stopped_us: stopped.as_secs_f64() * 1e6,
    });
}

/// The session itself.
fn watch(
    line: &mut Line,
    session: &mut Session<'_>,
    args: &SessionArgs,
    record: &mut Record,
) -> (End, Duration) {
    let target = session.target();
    let mut next_threads = Instant::now();
    let began = Instant::now();
    let guard = Guard::new(&target.process, args.max_overhead, args.max_memory);
    let deadline = args.duration.map(|duration| began + duration);
    let (mut next_look, mut next_beat, mut next_progress) = (began, began, began + PROGRESS);
    let mut lost = 0;
    loop {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return (End::Over, began.elapsed());
        }
        if now >= next_look {
            match session.watch() {
                Watch::Runs => {}
                Watch::Execed => return (End::Execed, began.elapsed()),
                Watch::Ended => return (End::Ended, began.elapsed()),
            }
            // Never more than a twentieth of a processor for looking.
            next_look = Instant::now() + WATCH.max(now.elapsed() * 20);
        }
        if now >= next_threads {
            record.follow(session);
            session.stream.place_stacks(&target.process, &target.memory);
            next_threads = Instant::now() + THREADS;
        }
        if now >= next_beat {
            session.beat();
            next_beat = now + heartbeat::PERIOD;
        }
        if now >= next_progress {
            let counts = session.stream.counts(&target.memory).unwrap_or_default();
            let (calls, bytes) = counts.totals();
            if args.on_full == OnFull::Slow && counts.lost.blocks > lost {
                lost = counts.lost.blocks;
                let slower = (session.stream.interval * 2).clamp(LEAST_INTERVAL, 1 << 40);
                let _ = session.stream.set_interval(&target.memory, slower);
            }
            line.send(&Message::Progress { calls, bytes });
            let memory = session.patches.home.used() + session.stream.memory().unwrap_or(0);
            if let Some(objection) = guard.objection(&target.process, calls, memory) {
                return (End::Objection(objection), began.elapsed());
            }
            next_progress = now + PROGRESS;
        }
        let next =
            [Some(next_look), Some(next_beat), Some(next_progress), Some(next_threads), deadline];
        let next = next.into_iter().flatten().min().unwrap_or(now);
        if line.listen(target, next.saturating_duration_since(Instant::now())).is_some() {
            return (End::Asked, began.elapsed());
        }
    }
}

/// Writes down how it ended.
fn conclude(session: &Session<'_>, ending: &End, report: &mut Report) {
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

/// Writes down why there was no session.
fn refuse(report: &mut Report, failure: &Failure) {
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
