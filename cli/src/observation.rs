//! A session from the attach to the report: it is watched, and what it tells is taken in beside.

use std::{
    os::fd::AsFd,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use heapattach_injector::{
    heartbeat,
    proc::{maps, pidfd},
    session::{Detached, Session, Watch},
    target::Target,
};

use crate::{
    args::{OnFull, SessionArgs},
    clock::{Clock, TEMPORARY},
    compose::{add_detach, blind_spots, compose},
    desk::{Desk, Note},
    exit::Exit,
    guard::Guard,
    hidden::Hidden,
    interpreter_report::{Circumstances, interpreter_report},
    ledger::{About, Loss},
    line::{Heard, Line},
    message::Message,
    naming::Code,
    recorder::Recorder,
    recording::{Heading, Scribe, Store, Tape},
    report::{ExitReport, RecordingReport, Report},
    site_report::{callers, heap_report},
    stack_list,
    stack_report::stacks_report,
    symbols::Symbols,
    watchman::Watchman,
};

/// The link map is looked at so often, unless looking takes long itself.
const WATCH: Duration = Duration::from_millis(40);
const PROGRESS: Duration = Duration::from_millis(500);
/// How often new threads are looked for.
const THREADS: Duration = Duration::from_millis(20);

/// Slowing down goes on from here, if everything was recorded until then.
const LEAST_INTERVAL: u64 = 4096;

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

/// What is made of a session.
#[derive(Debug)]
pub struct Record {
    store: Option<Store>,
    symbols: Symbols,
    /// How often modules came or went when they were last noted.
    changes: u64,
    rss: Option<u64>,
    circumstances: Circumstances,
}

impl Record {
    /// Begun before the attach: a short program may have ended by its end.
    pub fn new(target: &Target, store: Option<Store>) -> Self {
        let mut record = Self {
            store,
            symbols: Symbols::new(),
            changes: 0,
            rss: resident(target),
            circumstances: Circumstances::of(&target.process),
        };
        record.symbols.ask_servers();
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
    pub fn observe(
        mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        args: &SessionArgs,
        report: &mut Report,
    ) -> End {
        let target = session.target();
        let Some(records) = session.stream.take_records() else { return End::Over };
        let clock = Clock::start();
        let mut heading = heading(args, report, session.stream.interval);
        let path = self.store.as_ref().and_then(|store| store.path.clone());
        let scribe = match self.store.take().map(|store| scribe(store, args)).transpose() {
            Ok(scribe) => scribe,
            Err(error) => {
                let detached = session.detach();
                fail(report, &detached, &format!("the recording cannot be begun: {error}"));
                return End::Over;
            }
        };
        if let Some(scribe) = &scribe {
            scribe.heading(&heading);
            scribe.modules(&self.symbols.known());
        }
        let desk = Desk::default();
        let watchman = Watchman::new(&desk, clock, &args.record);
        desk.leave(Note::Modules(self.symbols.known()));
        let has_names = !args.record.no_symbols || path.is_none();
        let recorder = Recorder::new(records, args.interval() <= 1, clock, scribe, has_names);
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        thread::scope(|scope| {
            // The reader ends whatever becomes of us: the scope waits for it.
            let _over = Over(&is_over);
            let read = || recorder.follow(memory, &desk, &is_over);
            let reading = match thread::Builder::new().spawn_scoped(scope, read) {
                Ok(reading) => reading,
                Err(error) => {
                    let detached = session.detach();
                    fail(report, &detached, &format!("no thread to read the records: {error}"));
                    return End::Over;
                }
            };
            let (ending, counted) = watch(line, session, args, &mut self, watchman);
            self.follow(session, &desk);
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
            let (Some(mut recorder), counts) = read else {
                fail(report, &detached, "the thread that reads the records failed");
                return ending;
            };
            let (pid, command) = (report.pid, std::mem::take(&mut report.command));
            *report = compose(session, &counts, &recorder, counted);
            self.symbols.note_generated();
            self.symbols.note_python(recorder.records.python_frames());
            // Nobody waits for us any more but the command, which may have no patience.
            self.symbols.fetch_returns(callers(&recorder), &mut |progress| {
                line.send(&Message::Fetching(progress.to_owned()));
                line.listen(target, Duration::ZERO).is_none()
            });
            let hidden = Hidden::new(&args.hide_frames);
            report.heap = heap_report(session, &recorder, &mut self.symbols, &hidden, counts.lost);
            report.interpreter =
                interpreter_report(session, &recorder, &self.symbols, &self.circumstances);
            report.missing_symbols = self.symbols.missing();
            report.stacks = stacks_report(session.tables.totals(), &recorder, counts.verified);
            (report.pid, report.command, report.blind, report.rss) = (pid, command, blind, rss);
            add_detach(report, &detached);
            conclude(session, &ending, report);
            if let Some(scribe) = recorder.take_scribe() {
                fill(&mut heading.about, report, counted);
                heading.is_final = true;
                let code = has_names.then(|| Code::of(recorder.addresses(), &mut self.symbols));
                note_recording(report, path, scribe.finish(&heading, code.as_ref()));
            }
            if let Some(path) = &args.stacks
                && let Err(error) = stack_list::write(path, &recorder)
            {
                let path = path.display();
                report.error = Some(format!("the stacks cannot be written to {path}: {error}"));
                report.status = report.status.max(Exit::Failed.code());
            }
            ending
        })
    }

    /// Notes new modules, for their symbols.
    fn follow(&mut self, session: &Session<'_>, desk: &Desk) {
        if session.changes != self.changes {
            self.changes = session.changes;
            self.note(session.target());
            desk.leave(Note::Modules(self.symbols.known()));
        }
    }
}

/// Who writes the session down.
fn scribe(store: Store, args: &SessionArgs) -> std::io::Result<Scribe> {
    // What nobody can look at later is only asked for its sums.
    let logs = store.path.is_some();
    Ok(Scribe::new(Tape::start(store.file, store.path, args.record.max_size)?, logs))
}

/// What is known at the beginning.
fn heading(args: &SessionArgs, report: &Report, every: u64) -> Heading {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let command = if args.record.redact { String::new() } else { report.command.clone() };
    let about = About {
        pid: report.pid,
        command,
        began: began.as_secs(),
        every,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        temporary_ms: u64::try_from(TEMPORARY.as_millis()).unwrap_or(u64::MAX),
        ..About::default()
    };
    Heading { about, hide_frames: args.hide_frames.clone(), is_final: false }
}

/// What is known at the end.
fn fill(about: &mut About, report: &Report, counted: Duration) {
    let lost = report.heap.lost;
    about.lasted_ms = u64::try_from(counted.as_millis()).unwrap_or(u64::MAX);
    about.every = report.heap.every;
    about.outcome.clone_from(&report.outcome);
    about.exit = report.exit;
    about.loss = Loss {
        blocks: lost.blocks,
        frees: lost.frees,
        samples: lost.samples,
        beyond_limit: lost.beyond_limit,
        stacks: lost.stacks,
        torn: lost.torn,
        missed_frees: lost.missed_frees,
    };
    about.blind.clone_from(&report.blind);
    let interpreter = report.interpreter.iter();
    about.blind.extend(
        interpreter.flat_map(|one| one.notes.iter().map(|note| format!("{}: {note}", one.name))),
    );
    let not_hooked = report.not_hooked.iter();
    about.blind.extend(not_hooked.map(|n| format!("{} of {}: {}", n.function, n.module, n.why)));
    let missing = report.missing_symbols.iter();
    let missing = missing.map(|m| format!("{}: {}; {}", m.module, m.why, m.cure));
    about.missing_symbols = missing.collect();
}

/// Says what became of the file.
fn note_recording(report: &mut Report, path: Option<PathBuf>, written: std::io::Result<u64>) {
    match (path, written) {
        (None, _) => {}
        (Some(path), Ok(bytes)) => report.recording = Some(RecordingReport { path, bytes }),
        (Some(path), Err(error)) => {
            let name = path.display();
            let what =
                format!("the recording {name} ends too early: it cannot be written: {error}");
            report.error.get_or_insert(what);
            report.status = report.status.max(Exit::Failed.code());
            report.recording = Some(RecordingReport { path, bytes: 0 });
        }
    }
}

/// A session without a result.
fn fail(report: &mut Report, detached: &Detached, why: &str) {
    add_detach(report, detached);
    report.error = Some(why.to_owned());
    let is_left = report.target == "altered";
    report.status = if is_left { Exit::Left } else { Exit::Failed }.code();
}

/// Says at its end that a session is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Bytes of memory that the target has in use.
fn resident(target: &Target) -> Option<u64> {
    let text = String::from_utf8(target.process.read("status").ok()?).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The session itself.
fn watch(
    line: &mut Line,
    session: &mut Session<'_>,
    args: &SessionArgs,
    record: &mut Record,
    mut watchman: Watchman<'_>,
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
            watchman.end(session);
            return (End::Over, began.elapsed());
        }
        for mark in watchman.look(session) {
            line.send(&Message::Marked(mark));
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
            record.follow(session, watchman.desk());
            watchman.look_at_threads(session);
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
        let next = next.into_iter().flatten().min().unwrap_or(now).min(watchman.next());
        match line.listen(target, next.saturating_duration_since(Instant::now())) {
            None => {}
            Some(Heard::Mark) => {
                line.send(&Message::Marked(watchman.mark("somebody asked for it".to_owned())));
            }
            Some(Heard::Detach | Heard::Gone) => {
                watchman.end(session);
                return (End::Asked, began.elapsed());
            }
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
