//! A check in the tracing process: every block is recorded from the attach on, and at the moment
//! that was asked for the target stands still, everything recorded is taken in, and its memory is
//! looked through.
//!
//! ```text
//! attach, or program -> watch -> end -> sight -> conclusion
//! ```

mod books;
mod conclusion;
mod end;
mod program;
mod sight;
mod watch;

use std::{
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use heapattach_injector::{
    asked::Asked, attach::Options, fault, keeper::Keeper, loader::Loader, proc::maps, python::Wish,
    session::Session, target::Target,
};

use crate::{
    args::CheckArgs,
    check_report::micros,
    clock::Clock,
    compose::{add_detach, blind_spots, stops},
    desk::Desk,
    exit::Exit,
    line::Line,
    message::Message,
    payload,
    recorder::Recorder,
    report::Report,
    spawn,
    symbols::{Symbols, demangle},
    tracer,
};

use end::End;
pub use program::run;

/// Room for records: as every block is recorded, there are many.
const RING_BITS: u32 = 15;
/// How often a thread looks for room in a full ring before it gives up: some seconds.
const WAITS: u32 = 250_000_000;

/// `heapattach check -p PID`, in the tracing process.
pub fn attach(line: UnixStream, target: &Target, args: &CheckArgs) {
    spawn::leave_session();
    let mut line = Line::new(line);
    let mut report = Report::new(target.process.pid(), target.process.command());
    let image = payload::image();
    match tracer::begin(target, image, options(args), None) {
        Ok(mut session) => {
            tracer::announce(&mut line, &session, &report, None);
            let mut inspection = Inspection::new(args, target);
            let end = inspection.run(&mut line, &mut session, None, &mut report);
            if end == Some(End::Gone) {
                report.status = Exit::TargetDied.code();
            }
        }
        Err(failure) => tracer::refuse(&mut report, &failure),
    }
    fault::summary();
    line.send(&Message::Finished(Box::new(report)));
}

fn options(args: &CheckArgs) -> Options {
    Options {
        mode: args.hooks.into(),
        max_memory: 0,
        interval: 1,
        ring_bits: RING_BITS,
        ring_patience: WAITS,
        pages: true,
        tables: true,
        copies: false,
        most_frames: args.max_depth,
        verify: 0,
        asked: Asked::new(args.hook.clone(), demangle::demangle),
        python: Wish::Auto,
        loader: Loader::Map,
        force: false,
    }
}

/// A check under way.
struct Inspection<'a> {
    args: &'a CheckArgs,
    symbols: Symbols,
    /// How often modules came or went when they were last noted.
    changes: u64,
}

impl<'a> Inspection<'a> {
    fn new(args: &'a CheckArgs, target: &Target) -> Self {
        let mut inspection = Self { args, symbols: Symbols::new(), changes: 0 };
        inspection.symbols.ask_servers();
        inspection.note(target);
        inspection
    }

    fn note(&mut self, target: &Target) {
        let text = target.process.read("maps").unwrap_or_default();
        if let Ok(maps) = maps::parse(&text) {
            self.symbols.note(&target.process, &maps);
        }
    }

    /// From the attach to the report.
    fn run(
        &mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        mut keeper: Option<Keeper<'_>>,
        report: &mut Report,
    ) -> Option<End> {
        let target = session.target();
        let records = session.stream.take_records()?;
        let desk = Desk::default();
        let recorder = Recorder::new(records, true, Clock::start(), None, false);
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        thread::scope(|scope| {
            // The reader ends whatever becomes of us: the scope waits for it.
            let _over = Over(&is_over);
            let read = || recorder.follow(memory, &desk, &is_over);
            let reading = thread::Builder::new().spawn_scoped(scope, read).ok()?;
            let end = self.watch(line, session, &desk, keeper.as_mut());
            self.follow(session);
            let finish_reading = || {
                is_over.store(true, Relaxed);
                reading.join().ok()
            };
            let found = match end {
                End::Execed | End::Gone => None,
                _ => Some(self.look(session, keeper.as_ref(), end, finish_reading)),
            };
            let blind = blind_spots(session);
            let counts = session.stream.counts(memory).unwrap_or_default();
            // What ends takes everything of ours along.
            report.target = "restored".to_owned();
            if let Some(keeper) = keeper {
                keeper.finish();
            }
            if end != End::Ends {
                let detached = session.detach();
                add_detach(report, &detached);
            }
            report.outcome = end.outcome().to_owned();
            report.stops = stops(session);
            report.window_us = micros(session.exposed);
            report.blind = blind;
            match found {
                None => {}
                Some(Err(error)) => {
                    report.error = Some(error);
                    report.status = report.status.max(Exit::Failed.code());
                }
                Some(Ok((recorder, seen))) => {
                    self.conclude(session, end, &recorder, seen, counts.lost, report);
                }
            }
            Some(end)
        })
    }
}

/// Says at its end that a session is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
