//! A session from the attach to the report: it is watched, and what it tells is taken in beside.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_injector::{proc::maps, session::Session, target::Target};

use crate::{
    args::SessionArgs,
    clock::Clock,
    compose::{add_detach, blind_spots, compose},
    desk::{Desk, Note},
    ending::{End, conclude, fail},
    exit::Exit,
    hidden::Hidden,
    inscription::{fill, heading, note_recording, scribe},
    interpreter_report::{Circumstances, interpreter_report},
    line::Line,
    message::Message,
    naming::Code,
    recorder::Recorder,
    recording::{Scribe, Store},
    report::Report,
    site_report::{callers, heap_report},
    stack_list,
    stack_report::stacks_report,
    symbols::Symbols,
    vigil,
    watchman::Watchman,
};

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
        let command = if args.record.redact { String::new() } else { report.command.clone() };
        let every = (report.pid, session.stream.interval);
        let mut heading = heading(command, &args.hooks.hide_frames, every, &target.process);
        let path = self.store.as_ref().and_then(|store| store.path.clone());
        let mut scribe = match self.store.take().map(|store| scribe(store, args)).transpose() {
            Ok(scribe) => scribe,
            Err(error) => {
                let detached = session.detach();
                fail(report, &detached, &format!("the recording cannot be begun: {error}"));
                return End::Over;
            }
        };
        if let Some(scribe) = &mut scribe {
            scribe.heading(&heading);
            scribe.modules(&self.symbols.known());
        }
        let desk = Desk::default();
        let watchman = Watchman::new(&desk, clock, args);
        let haste = scribe.as_ref().map(Scribe::haste);
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
            let (ending, counted) = vigil::watch(line, session, args, &mut self, watchman);
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
                // Until then no disk is waited for.
                haste.iter().for_each(|haste| haste.set(true));
                let read = stop_reading(session);
                let detached = session.detach();
                haste.iter().for_each(|haste| haste.set(false));
                (read, detached)
            } else {
                let detached = session.detach();
                (stop_reading(session), detached)
            };
            let (Some(mut recorder), counts) = read else {
                fail(report, &detached, "the thread that reads the records failed");
                return ending;
            };
            recorder.conclude(&desk);
            let (pid, command) = (report.pid, std::mem::take(&mut report.command));
            *report = compose(session, &counts, &recorder, counted);
            self.symbols.note_generated();
            self.symbols.note_python(recorder.records.python_frames());
            // Nobody waits for us any more but the command, which may have no patience.
            self.symbols.fetch_returns(callers(&recorder), &mut |progress| {
                line.send(&Message::Fetching(progress.to_owned()));
                line.listen(target, Duration::ZERO).is_none()
            });
            let hidden = Hidden::new(&args.hooks.hide_frames);
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
    pub fn follow(&mut self, session: &Session<'_>, desk: &Desk) {
        if session.changes != self.changes {
            self.changes = session.changes;
            self.note(session.target());
            desk.leave(Note::Modules(self.symbols.known()));
        }
    }
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
