//! A check in the tracing process: every block is recorded from the attach on, and at the moment
//! that was asked for the target stands still, everything recorded is taken in, and its memory is
//! looked through.
//!
//! ```text
//! watch -> end -> sight -> conclusion
//! ```

mod books;
mod conclusion;
mod end;
mod sight;
mod watch;

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use heapattach_injector::{
    asked::Asked, attach::Options, constant, keeper::Keeper, loader::Loader, own_checker,
    proc::maps, python::Wish, session::Session, target::Target,
};

use crate::{
    args::CheckArgs,
    check_report::micros,
    clock::Clock,
    compose::{add_detach, blind_spots, stops, with_causes},
    desk::Desk,
    exit::Exit,
    line::Line,
    recorder::Recorder,
    report::Report,
    suppression::Suppressions,
    symbols::{Symbols, demangle, printable::printable},
};

pub use end::End;

/// Room for records: as every block is recorded, there are many.
const RING_BITS: u32 = 15;
/// How often a thread looks for room in a full ring before it gives up: some seconds.
const WAITS: u32 = 250_000_000;

/// The function by which a program tells which of its leaks are known.
const RULES_OF_TARGET: &str = "__lsan_default_suppressions";

/// What the engine is told.
pub fn options(args: &CheckArgs) -> Options {
    Options {
        mode: args.hooks.hooks.into(),
        max_memory: 0,
        interval: 1,
        ring_bits: RING_BITS,
        ring_patience: WAITS,
        pages: true,
        tables: true,
        copies: false,
        most_frames: args.hooks.max_depth,
        verify: 0,
        asked: Asked::new(args.hooks.hook.clone(), demangle::demangle),
        python: Wish::Auto,
        loader: Loader::Map,
        force: false,
    }
}

/// A check under way.
#[derive(Debug)]
pub struct Inspection<'a> {
    args: &'a CheckArgs,
    rules: Suppressions,
    /// What is to be said besides.
    notes: Vec<String>,
    symbols: Symbols,
    /// How often modules came or went when they were last noted.
    changes: u64,
}

impl<'a> Inspection<'a> {
    /// Notes what the target has of names, and of rules of its own.
    pub fn new(args: &'a CheckArgs, rules: &Suppressions, target: &Target) -> Self {
        let rules = rules.clone();
        let (symbols, notes) = (Symbols::new(), Vec::new());
        let mut inspection = Self { args, rules, notes, symbols, changes: 0 };
        inspection.symbols.ask_servers();
        inspection.note(target);
        if !args.quiet.no_embedded_suppressions {
            inspection.ask_target(target);
        }
        inspection
    }

    /// Takes over the rules that the program was built with.
    fn ask_target(&mut self, target: &Target) {
        let found = own_checker::functions(target, &[RULES_OF_TARGET.as_bytes()]);
        for at in found.into_iter().flatten() {
            match constant::text(&target.memory, at) {
                Ok(text) => self.rules.add_of_target(&printable_lines(&text.unwrap_or_default())),
                Err(error) => {
                    let why = with_causes(&error);
                    self.notes.push(format!("{RULES_OF_TARGET} is not understood: {why}"));
                }
            }
        }
    }

    fn note(&mut self, target: &Target) {
        let text = target.process.read("maps").unwrap_or_default();
        if let Ok(maps) = maps::parse(&text) {
            self.symbols.note(&target.process, &maps);
        }
    }

    /// From the attach to the report.
    pub fn run(
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
            match keeper {
                Some(keeper) if end == End::Execed => keeper.forget(),
                Some(keeper) => keeper.finish(),
                None => {}
            }
            if !matches!(end, End::Ends | End::Execed) {
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

/// Text of the target, still in lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}
