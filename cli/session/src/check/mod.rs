//! A check in the tracing process: every block is recorded from the attach on, and at the moment
//! that was asked for the target is stopped, everything recorded is taken in, and its memory is
//! looked through. Before that, moments of it may be looked through while it goes on.
//!
//! ```text
//! watch -> end -> moment -> conclusion
//!   +-> rounds -> moment -> tally --^
//! ```

mod allocators;
mod conclusion;
mod early;
mod end;
mod flight;
pub(crate) mod frame_report;
mod growth_watch;
pub(crate) mod holders;
pub(crate) mod layout;
mod live_heap;
mod looked;
mod mappings;
mod moment;
mod named;
pub mod options;
mod patience;
mod program;
mod reading;
mod retained_sites;
mod rounds;
mod runtimes;
pub mod snapshot_choice;
mod sums;
mod suppressed;
mod watch;

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    thread,
};

use heapattach_injector::{
    family::{Attendant, Event},
    moment::client_requests::{self, ClientRequests},
    target::Target,
    watch::{ActiveHook, Counts, Session, Watch},
};
use heapattach_process::{cache::Cache, proc::maps};

use crate::{
    client::{channel::Line, message::Message},
    lsan::ProgramSettings,
    runtimes::go_program,
    valgrind,
    watch::{
        hook_counts::{add_detach, add_window, blind_spots, stops},
        inheritance::Will,
        intake::Recorder,
        names::{Job, NOT_AWAITED},
        notes::{Note, SharedNotes},
    },
};
use heapattach_profile::clock::Clock;
use heapattach_report::{Outcome, Report, TargetState, suppression::Suppressions};
use heapattach_symbols::{FileCache, Symbols};

pub(crate) use end::{End, note_end, step_aside};
use growth_watch::GrowthMeasure;
use looked::{Looked, free, lock};
use options::CheckOptions;
use patience::Patience;
use program::mail::{Mail, requested};
use reading::Reading;
use rounds::Rounds;
use watch::{Beside, meet_exec};

/// What the last look at the target gave: nothing of its own if another program is there by now.
type LookedAt = Option<Result<(Recorder, Option<Looked>), String>>;

/// A check under way.
#[derive(Debug)]
pub(crate) struct Inspection<'a> {
    options: &'a CheckOptions,
    /// Whether the program is seen from its first block on.
    is_from_start: bool,
    /// Whether blocks from before the attach are judged: it is no child, which has those of its parent.
    judges_older: bool,
    rules: Suppressions,
    /// What the program says of how it is to be checked.
    settings: ProgramSettings,
    /// What is to be said besides.
    notes: Vec<String>,
    /// Every look at the heap needs names, too.
    symbols: Arc<Mutex<Symbols>>,
    /// How often modules came or went when they were last noted.
    changes: u64,
    /// What a page in use costs when a process is cloned here, in nanoseconds, if that was measured.
    page_cost: Option<u64>,
    /// What is left to children of the target.
    will: Option<Will>,
    /// What client requests of valgrind's there were at the beginning.
    requests: ClientRequests,
}

/// What is to be said if the program may speak in between its allocations, and is not heard.
fn unheard(session: &Session<'_>) -> Option<String> {
    let may_speak = session.provides() || !session.mailboxes.is_empty();
    let hears = |hook: &ActiveHook| hook.number.is_some() && hook.planned.name() == "munmap";
    let is_heard = session.patches.hooks.iter().any(hears);
    (may_speak && !is_heard).then(|| {
        "munmap is not hooked: HEAPATTACH_IGNORE_BEGIN and functions of LeakSanitizer are not heard".to_owned()
    })
}

/// Undoes what was done to the target, unless it has ended, and tells how it is left; the last counts of the hooks.
fn leave<'t>(
    session: &mut Session<'t>,
    exit_watch: Option<Box<dyn Attendant<'t> + 't>>,
    end: End,
    report: &mut Report,
) -> Counts {
    let counts = session.stream.counts(&session.target().memory).unwrap_or_default();
    report.blind = blind_spots(session, &counts);
    // What ends takes everything of ours along.
    report.target = TargetState::Restored;
    match exit_watch {
        Some(exit_watch) if end == End::Execed => exit_watch.forget(),
        Some(exit_watch) => exit_watch.finish(),
        None => {}
    }
    if !matches!(end, End::Ends | End::Execed) {
        let detached = session.detach();
        add_detach(report, &detached);
    }
    report.outcome = end.outcome();
    report.stops = stops(session);
    add_window(report, session.exposed);
    counts
}

impl<'a> Inspection<'a> {
    /// Knows what a clone costs on this machine.
    #[must_use]
    pub fn with_page_cost(self, page_cost: Option<u64>) -> Self {
        Self { page_cost, ..self }
    }

    /// Notes what the target has of names, and of rules of its own.
    pub fn new(
        options: &'a CheckOptions,
        rules: &Suppressions,
        (target, files): (&Target, FileCache),
        is_from_start: bool,
    ) -> Self {
        let rules = rules.clone();
        let (mut symbols, notes) = (Symbols::new(), Vec::new());
        let settings = ProgramSettings::default();
        symbols.ask_servers();
        symbols.keep_names(options.hooks.cache.then(Cache::of_environment).flatten());
        symbols.read_through(files);
        if options.retained_by.is_some() {
            symbols.with_variables();
        }
        let symbols = Arc::new(Mutex::new(symbols));
        let (page_cost, will) = Default::default();
        // The first look in the session notes what came meanwhile.
        let changes = u64::MAX;
        let judges_older = !is_from_start;
        let mut inspection = Self {
            options,
            is_from_start,
            judges_older,
            rules,
            settings,
            notes,
            symbols,
            changes,
            page_cost,
            will,
            requests: ClientRequests::default(),
        };
        inspection.note(target);
        if options.embedded_rules {
            let Self { rules, notes, .. } = &mut inspection;
            inspection.settings = ProgramSettings::of(target, rules, notes);
        }
        inspection.requests = client_requests::of(target);
        for runtime in runtimes::of(target) {
            inspection.rules.add_runtime(runtime, options.built_in_rules);
        }
        inspection
    }

    /// Of a forked child: all that is to be noted was noted of its parent.
    pub fn inherited(
        options: &'a CheckOptions,
        (rules, settings): &(Suppressions, ProgramSettings),
        mut symbols: Symbols,
    ) -> Self {
        symbols.ask_servers();
        symbols.keep_names(options.hooks.cache.then(Cache::of_environment).flatten());
        if options.retained_by.is_some() {
            symbols.with_variables();
        }
        let (notes, changes, page_cost, will) = Default::default();
        let (rules, settings) = (rules.clone(), settings.clone());
        let symbols = Arc::new(Mutex::new(symbols));
        let (is_from_start, judges_older) = Default::default();
        Self {
            options,
            is_from_start,
            judges_older,
            rules,
            settings,
            notes,
            symbols,
            changes,
            page_cost,
            will,
            requests: ClientRequests::default(),
        }
    }

    /// Leaves what there is of it to children of the target, by this will.
    #[must_use]
    pub fn leaving(self, will: Will, session: &Session<'_>) -> Self {
        let mut inspection =
            Self { will: Some(will.with_rules(&self.rules, &self.settings)), ..self };
        inspection.renew_will(session);
        inspection
    }

    fn renew_will(&mut self, session: &Session<'_>) {
        if let Some(will) = &mut self.will {
            will.renew(session, &lock(&self.symbols), None);
        }
    }

    /// Notes what is loaded. While another thread reads names, which may take as long as a disk likes, what
    /// came since stays without them.
    fn note(&self, target: &Target) {
        let text = target.process.read("maps").unwrap_or_default();
        if let (Ok(maps), Some(mut symbols)) = (maps::parse(&text), free(&self.symbols)) {
            symbols.note(&target.process, &maps);
        }
    }

    /// From the attach to the report.
    pub fn run<'t>(
        &mut self,
        line: &mut Line,
        session: &mut Session<'t>,
        mut exit_watch: Option<Box<dyn Attendant<'t> + 't>>,
        report: &mut Report,
    ) -> Option<End> {
        let target = session.target();
        session.note_static_tls();
        let records = session.stream.take_records()?;
        lock(&self.symbols).follow(records.generations());
        let shared_notes = SharedNotes::default();
        let clock = Clock::start();
        let begun = match self.options.growth {
            true => GrowthMeasure::begin(self, session, report, &shared_notes, clock).map(Some),
            false => Ok(None),
        };
        shared_notes.leave(Note::Modules(lock(&self.symbols).known()));
        let (begun, why_no_growth) = match begun {
            Ok(begun) => (begun, None),
            Err(error) => (None, Some(format!("events cannot be recorded: {error}"))),
        };
        let (mut growth_measure, session_writer) = begun.unzip();
        let mut recorder = Recorder::new(records, true, clock, session_writer, true);
        recorder.know_go(go_program::code_beside(&target.process));
        recorder.hear_by(session.patches.heard.hooks);
        self.notes.extend(valgrind::told(self.requests, &session.patches.heard));
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        let mut mail = Mail::default();
        thread::scope(|scope| {
            // It must end even if this thread panics: the scope waits for it.
            let reading = Reading::begin(scope, recorder, memory, &shared_notes, &is_over)?;
            let mut rounds = Rounds::new(scope, clock, self.options.every, self.options.warmup);
            let mut beside = Beside {
                shared_notes: &shared_notes,
                reading: &reading,
                rounds: &mut rounds,
                growth_measure: &mut growth_measure,
                mail: &mut mail,
            };
            let mut end = self.watch(line, session, &mut beside, exit_watch.as_deref_mut());
            let counted = clock.elapsed();
            mail.request(requested(&shared_notes));
            mail.look(session, counted);
            if self.will.is_some()
                && let Some(title) = target.process.title()
            {
                report.command = title;
            }
            growth_measure.iter().for_each(|growth_measure| growth_measure.end(session));
            rounds.end(session, end, line);
            self.follow(session);
            let turned_off = self.settings.turned_off(memory);
            let looked_at = match end {
                _ if turned_off.is_some() => None,
                // What was seen last is what is known.
                End::Execed | End::Gone => reading.pause().map(|recorder| Ok((recorder, None))),
                _ => {
                    let heard = mail.heard(session, clock.elapsed());
                    let mut tell = |done, all| line.send(&Message::Looking { done, all });
                    let looked =
                        self.look(session, exit_watch.as_deref(), end, heard, &reading, &mut tell);
                    Some(looked.map(|(recorder, looked)| (recorder, Some(looked))))
                }
            };
            // It may have become another program just when it was to be looked at.
            let has_execed = |exit_watch: &mut (dyn Attendant<'t> + 't)| match session.is_over() {
                Some(Watch::Execed) => meet_exec(exit_watch, session, line) == End::Execed,
                _ => exit_watch.attend() == Some(Event::Execs),
            };
            let looked_at: LookedAt = match looked_at {
                Some(Err(_)) if exit_watch.as_deref_mut().is_some_and(has_execed) => {
                    end = End::Execed;
                    reading.pause().map(|recorder| Ok((recorder, None)))
                }
                looked_at => looked_at,
            };
            let counts = leave(session, exit_watch, end, report);
            let mut patience = Patience::new(line, target);
            let known = rounds.finish(&mut patience);
            let found = match looked_at {
                Some(Ok((recorder, Some(looked)))) => {
                    let tools = self.tools(known);
                    let job = Job::begin(move || looked.conclude(tools));
                    let seen = job.and_then(|job| job.wait(&mut || patience.goes_on()));
                    if let Some(seen) = &seen {
                        rounds.add_last(seen, mail.left());
                    }
                    Some(seen.map(|seen| (recorder, seen)).ok_or_else(|| NOT_AWAITED.to_owned()))
                }
                Some(Ok((recorder, None))) => rounds.take_last().map(|seen| Ok((recorder, seen))),
                Some(Err(error)) => Some(Err(error)),
                None => None,
            };
            rounds.fail_last(&mail.left(), patience.line);
            let tally = std::mem::take(&mut rounds.tally);
            let unmade = std::mem::take(&mut rounds.unmade);
            match found {
                None => {}
                Some(Err(error)) => patience.tell(error, report),
                Some(Ok((recorder, seen))) => {
                    if self.options.functions {
                        self.tell_functions(session, &recorder, &counts, counted, report);
                    }
                    let found = (tally, counts.lost);
                    if let Err(why) =
                        self.conclude(end.moment(), seen, found, &mut patience, report)
                    {
                        patience.tell(why.to_owned(), report);
                        return Some(end);
                    }
                    if let Some(check) = &mut report.check {
                        check.unmade = unmade;
                        mail.tell(&session.mailboxes, check);
                        check.notes.extend(recorder.spoken().note());
                        check.notes.extend(recorder.announced().note());
                        check.notes.extend(unheard(session));
                        check.why_no_growth = why_no_growth;
                    }
                    let growth = (growth_measure, counted);
                    self.tell_sums(session, recorder, growth, counts.lost, &mut patience, report);
                }
            }
            if let Some(function) = turned_off {
                report.outcome = Outcome::Aside;
                report.why = Some(format!("it says so itself: {function}"));
            }
            Some(end)
        })
    }
}
