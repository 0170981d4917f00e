//! A check in the tracing process: every block is recorded from the attach on, and at the moment
//! that was asked for the target stands still, everything recorded is taken in, and its memory is
//! looked through. Before that, moments of it may be looked through while it goes on.
//!
//! ```text
//! watch -> end -> sight -> conclusion
//!   +-> rounds -> sight -> tally --^
//! ```

mod books;
mod conclusion;
mod end;
mod gauge;
mod mail;
mod reading;
mod rounds;
mod sight;
mod tally;
mod watch;

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    thread,
};

use heapattach_injector::{
    asked::Asked,
    attach::Options,
    constant,
    keeper::{Attendant, Event},
    loader::Loader,
    mailbox::Service,
    own_checker,
    proc::maps,
    python::Wish,
    session::Session,
    target::Target,
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
use gauge::Gauge;
use mail::Mail;
use reading::Reading;
use rounds::Rounds;
use sight::lock;
use watch::Beside;

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
        service: Service::Checks,
    }
}

/// A check under way.
#[derive(Debug)]
pub struct Inspection<'a> {
    args: &'a CheckArgs,
    /// Whether the program is seen from its first block on.
    is_from_start: bool,
    rules: Suppressions,
    /// What is to be said besides.
    notes: Vec<String>,
    /// Whoever looks wants names, too.
    symbols: Arc<Mutex<Symbols>>,
    /// How often modules came or went when they were last noted.
    changes: u64,
}

impl<'a> Inspection<'a> {
    /// Notes what the target has of names, and of rules of its own.
    pub fn new(
        args: &'a CheckArgs,
        rules: &Suppressions,
        target: &Target,
        is_from_start: bool,
    ) -> Self {
        let rules = rules.clone();
        let (mut symbols, notes) = (Symbols::new(), Vec::new());
        symbols.ask_servers();
        if args.retained_by.is_some() {
            symbols.with_variables();
        }
        let symbols = Arc::new(Mutex::new(symbols));
        let mut inspection = Self { args, is_from_start, rules, notes, symbols, changes: 0 };
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

    fn note(&self, target: &Target) {
        let text = target.process.read("maps").unwrap_or_default();
        if let Ok(maps) = maps::parse(&text) {
            lock(&self.symbols).note(&target.process, &maps);
        }
    }

    /// From the attach to the report.
    pub fn run<'t>(
        &mut self,
        line: &mut Line,
        session: &mut Session<'t>,
        mut keeper: Option<Box<dyn Attendant<'t> + 't>>,
        report: &mut Report,
    ) -> Option<End> {
        let target = session.target();
        let records = session.stream.take_records()?;
        let desk = Desk::default();
        let clock = Clock::start();
        let begun = match self.args.asks_for_growth() {
            true => Gauge::begin(self, session, report, &desk, clock).map(Some),
            false => Ok(None),
        };
        let (begun, why_no_growth) = match begun {
            Ok(begun) => (begun, None),
            Err(error) => (None, Some(format!("what happens cannot be written down: {error}"))),
        };
        let (mut gauge, scribe) = begun.unzip();
        let recorder = Recorder::new(records, true, clock, scribe, true);
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        let mut mail = Mail::default();
        thread::scope(|scope| {
            // It ends whatever becomes of us: the scope waits for it.
            let reading = Reading::begin(scope, recorder, memory, &desk, &is_over)?;
            let mut rounds = Rounds::new(scope, clock, self.args.every, self.args.warmup);
            let mut beside = Beside {
                desk: &desk,
                reading: &reading,
                rounds: &mut rounds,
                gauge: &mut gauge,
                mail: &mut mail,
            };
            let mut end = self.watch(line, session, &mut beside, keeper.as_deref_mut());
            let counted = clock.elapsed();
            mail.look(session, counted);
            gauge.iter().for_each(|gauge| gauge.end(session));
            rounds.end(session, end, line);
            self.follow(session);
            let found = match end {
                // What was seen last is what is known.
                End::Execed | End::Gone => reading.pause().zip(rounds.take_last()).map(Ok),
                _ => {
                    let (keeper, known) = (keeper.as_deref(), rounds.known());
                    let heard = mail.heard(session, clock.elapsed());
                    let said = (known, heard);
                    let found = self.look(session, keeper, end, said, || reading.pause());
                    found.iter().for_each(|(_, seen)| rounds.add_last(seen));
                    Some(found)
                }
            };
            // It may have become another program just when it was to be looked at.
            let has_execed =
                |keeper: &mut (dyn Attendant<'_> + '_)| keeper.attend() == Some(Event::Execs);
            let found = match found {
                Some(Err(_)) if keeper.as_deref_mut().is_some_and(has_execed) => {
                    end = End::Execed;
                    reading.pause().zip(rounds.take_last()).map(Ok)
                }
                found => found,
            };
            let tally = std::mem::take(&mut rounds.tally);
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
                Some(Ok((mut recorder, seen))) => {
                    self.conclude(end.name(), seen, tally, counts.lost, report);
                    if let Some(check) = &mut report.check {
                        mail.tell(&session.mailboxes, check);
                        check.why_no_growth = why_no_growth;
                        gauge.into_iter().for_each(|gauge| {
                            gauge.tell(&mut recorder, counted, &mut lock(&self.symbols), check);
                        });
                    }
                }
            }
            Some(end)
        })
    }
}

/// Text of the target, still in lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}
