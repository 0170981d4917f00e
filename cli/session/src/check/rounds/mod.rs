//! Checks of a process that goes on: each takes a moment, lets the target run, and looks through the
//! moment in a thread of its own.

pub(crate) mod told;

use std::{
    collections::HashMap,
    thread::{Builder, Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use heapattach_injector::watch::{Session, heartbeat};

use crate::{
    client::{channel::Line, message::Message},
    watch::names::{Job, NOT_AWAITED},
};
use heapattach_profile::clock::Clock;
use heapattach_reach::Kind;
use heapattach_report::RoundReport;

use super::{
    Inspection,
    conclusion::missing,
    end::End,
    looked::{Looked, Seen, Tools},
    moment::Held,
    patience::Patience,
    program::mail::{Answer, LSAN_CHECK, Mail, VALGRIND_CHECK},
    reading::Reading,
};

use told::Tally;

/// If another check is not done, it is tried again after so long.
const AGAIN: Duration = Duration::from_millis(10);

/// So many checks that have no result are told one by one.
const MOST_UNMADE: usize = 64;

/// So long the names of a round are waited for before the last check.
const NAMES: Duration = Duration::from_secs(2);

const FAILED: &str = "the thread of the check failed";

/// All rounds of one inspection.
pub(super) struct Rounds<'scope, 'env: 'scope, 't> {
    scope: &'scope Scope<'scope, 'env>,
    clock: Clock,
    every: Option<Duration>,
    /// When the next round is due, and when what the program asked for is tried again.
    due: Option<Instant>,
    asked: Option<Instant>,
    running: Option<Running<'scope, 't>>,
    /// Which rules fit which stacks.
    known: HashMap<u32, Option<usize>>,
    /// Every check so far.
    pub(super) tally: Tally,
    /// Checks that the program asked for and that have no result, a sentence each.
    pub(super) unmade: Vec<String>,
    /// What the last one saw.
    last: Option<Seen>,
    /// What the check found that a thread waits for.
    told: Option<Answer>,
}

/// A round that has no result yet.
struct Running<'scope, 't> {
    at_ms: u64,
    name: Option<String>,
    stage: Stage<'scope, 't>,
}

enum Stage<'scope, 't> {
    /// Its memory is looked through.
    Looking(Box<Looking<'scope, 't>>),
    /// Names are looked for. It needs nothing of the target.
    Naming(Job<Seen>),
}

struct Looking<'scope, 't> {
    handle: ScopedJoinHandle<'scope, Looked>,
    held: Held<'t>,
    tools: Tools,
}

impl Looking<'_, '_> {
    /// Its memory was looked through: nothing is held any more, if the target is not gone with it, and names
    /// are looked for.
    fn name(self, is_gone: bool) -> Result<Job<Seen>, &'static str> {
        let Self { handle, held, tools } = self;
        let Ok(mut looked) = handle.join() else {
            held.abandon();
            return Err(FAILED);
        };
        if is_gone {
            held.abandon()
        } else {
            held.finish(&mut looked)
        }
        Job::begin(move || looked.conclude(tools))
            .ok_or("no thread could be started to look for names")
    }
}

impl<'scope, 'env, 't: 'scope> Rounds<'scope, 'env, 't> {
    /// One every so often, none before the warm-up is over.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        clock: Clock,
        every: Option<Duration>,
        warmup: Option<Duration>,
    ) -> Self {
        let first = every.map(|every| every.max(warmup.unwrap_or_default()));
        let due = first.map(|first| Instant::now() + first);
        let (known, tally, unmade) = Default::default();
        let (asked, running, last, told) = Default::default();
        Self { scope, clock, every, due, asked, running, known, tally, unmade, last, told }
    }

    /// When something is to be done next.
    pub(super) fn next(&self) -> Option<Instant> {
        let poll = self.running.as_ref().map(|_| Instant::now() + AGAIN);
        self.due.into_iter().chain(poll).min()
    }

    /// Since counting began.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Ends a round that is done, and begins one that is due or asked for by the program.
    pub(super) fn look<'a: 'scope>(
        &mut self,
        inspection: &Inspection<'a>,
        session: &mut Session<'t>,
        (reading, mail): (&Reading<'_>, &mut Mail),
        line: &mut Line,
    ) {
        self.advance(false, line);
        if let Some(answer) = self.told.take() {
            mail.conclude(session, answer);
        }
        let now = Instant::now();
        let is_asked = mail.is_waiting() && self.asked.is_none_or(|asked| now >= asked);
        let is_due = self.due.is_some_and(|due| now >= due);
        if !is_asked && !is_due {
            return;
        }
        // What the program asked for comes first: a thread of it waits.
        let (due, name) = match is_asked {
            true => (&mut self.asked, mail.name()),
            false => (&mut self.due, None),
        };
        if self.running.is_some() {
            // Looking takes longer than they are apart: this one comes when that is done.
            *due = Some(now + AGAIN);
            return;
        }
        let name = name.as_deref();
        if let Err(why) = self.begin(inspection, session, (reading, mail), name) {
            self.fail(&why, name, line);
        }
        if is_asked {
            self.asked = None;
            mail.answer(session);
        } else {
            // One that was slept over is not made up for.
            self.due = self.every.map(|every| now + every);
        }
    }

    /// Takes the moment, and begins to look through it.
    fn begin<'a: 'scope>(
        &mut self,
        inspection: &Inspection<'a>,
        session: &Session<'t>,
        (reading, mail): (&Reading<'_>, &mut Mail),
        name: Option<&str>,
    ) -> Result<(), String> {
        let heard = mail.heard(session, self.clock.elapsed());
        let (recorder, taken, mut held) = inspection.take_moment(session, heard, reading, false)?;
        let at_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        reading.resume(recorder);
        let tools = inspection.tools(std::mem::take(&mut self.known));
        let options = inspection.options;
        let handle =
            Builder::new().spawn_scoped(self.scope, move || taken.look(options, &mut |_, _| {}));
        let handle =
            handle.map_err(|error| format!("no thread could be started for the check: {error}"))?;
        if held.is_stopped() {
            wait(session, || handle.is_finished());
            held.let_go();
        }
        let stage = Stage::Looking(Box::new(Looking { handle, held, tools }));
        self.running = Some(Running { at_ms, name: name.map(str::to_owned), stage });
        Ok(())
    }

    /// Takes a round further, if it is done with what it does: from memory to names, and to its result.
    fn advance(&mut self, is_gone: bool, line: &mut Line) {
        let Some(Running { at_ms, name, stage }) = self.running.take() else { return };
        let stage = match stage {
            Stage::Looking(looking) if looking.handle.is_finished() => {
                match looking.name(is_gone) {
                    Ok(job) => Stage::Naming(job),
                    Err(why) => return self.fail(why, name.as_deref(), line),
                }
            }
            stage => stage,
        };
        if let Stage::Naming(job) = &stage {
            match job.poll() {
                Ok(Some(seen)) => return self.add((at_ms, name), seen, line),
                Ok(None) => {}
                Err(_) => return self.fail(FAILED, name.as_deref(), line),
            }
        }
        self.running = Some(Running { at_ms, name, stage });
    }

    fn add(&mut self, (at_ms, name): (u64, Option<String>), seen: Seen, line: &mut Line) {
        self.known.clone_from(seen.suppressed.known());
        self.told = self.told.or(name.as_deref().and_then(|name| answer(name, &seen)));
        let round = RoundReport { name, ..round(at_ms, &seen) };
        if let Some(doubt) = round.doubts.first() {
            self.miss(round.name.as_deref(), doubt);
        }
        line.send(&Message::Checked(self.tally.add(&seen.checked.findings, round)));
        self.last = Some(seen);
    }

    /// Notes that a check that the program asked for has no result.
    fn miss(&mut self, name: Option<&str>, why: &str) {
        if let Some(name) = name
            && self.unmade.len() < MOST_UNMADE
        {
            self.unmade.push(format!("the check `{name}` that the program requested: {why}"));
        }
    }

    fn fail(&mut self, why: &str, name: Option<&str>, line: &mut Line) {
        self.miss(name, why);
        self.told = match name {
            Some(LSAN_CHECK) => Some(Answer::Lsan(false)),
            Some(VALGRIND_CHECK) => Some(Answer::Valgrind([0; 8])),
            _ => self.told,
        };
        let at_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let error = Some(why.to_owned());
        let name = name.map(str::to_owned);
        let round = self.tally.push(RoundReport { at_ms, name, error, ..RoundReport::default() });
        line.send(&Message::Checked(round));
    }

    /// Nothing of the target is needed any more for a round that has no result yet.
    pub(super) fn end(&mut self, session: &Session<'_>, end: End, line: &mut Line) {
        self.due = None;
        if let Some(Running { stage: Stage::Looking(looking), .. }) = &self.running {
            wait(session, || looking.handle.is_finished());
        }
        // What is noted for the last check is noted while no other thread reads names; but those may take
        // as long as a disk likes.
        let until = Instant::now() + NAMES;
        let is_gone = matches!(end, End::Execed | End::Gone);
        self.advance(is_gone, line);
        while self.running.is_some() && Instant::now() < until {
            session.beat();
            std::thread::sleep(Duration::from_millis(1));
            self.advance(is_gone, line);
        }
    }

    /// Waits for the names of a round that has none yet; which rules are known to fit which stacks.
    pub(super) fn finish(&mut self, patience: &mut Patience<'_>) -> HashMap<u32, Option<usize>> {
        if let Some(Running { at_ms, name, stage: Stage::Naming(job) }) = self.running.take() {
            match job.wait(&mut || patience.goes_on()) {
                Some(seen) => self.add((at_ms, name), seen, patience.line),
                None => self.fail(NOT_AWAITED, name.as_deref(), patience.line),
            }
        }
        std::mem::take(&mut self.known)
    }

    /// Adds the last check, which was not a round; it is also what threads wait for that stand in calls
    /// for checks of these names.
    pub(super) fn add_last(&mut self, seen: &Seen, names: Vec<String>) {
        let at_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        for name in names {
            self.tally.add(
                &seen.checked.findings,
                RoundReport { name: Some(name), ..round(at_ms, seen) },
            );
        }
        if self.tally.count() > 0 {
            self.tally.add(&seen.checked.findings, round(at_ms, seen));
        }
    }

    /// There was no last check, and none of these names.
    pub(super) fn fail_last(&mut self, names: &[String], line: &mut Line) {
        names.iter().for_each(|name| self.fail("the process ended before it", Some(name), line));
    }

    /// What the last round saw.
    pub(super) fn take_last(&mut self) -> Option<Seen> {
        self.last.take()
    }
}

/// What is told to a thread that waits for a check of this name.
fn answer(name: &str, seen: &Seen) -> Option<Answer> {
    let sum = |kind| seen.checked.findings.sum(kind);
    let mut leaked = sum(Kind::Direct);
    leaked.merge(sum(Kind::Indirect));
    match name {
        LSAN_CHECK => Some(Answer::Lsan(leaked.blocks > 0)),
        VALGRIND_CHECK => {
            let of = [leaked, sum(Kind::Possible), sum(Kind::Reachable), seen.checked.quiet];
            let mut found = [0; 8];
            for (number, amount) in of.into_iter().enumerate() {
                (found[number], found[number + 4]) = (amount.bytes, amount.blocks);
            }
            Some(Answer::Valgrind(found))
        }
        _ => None,
    }
}

/// Waits; the hooks are not to think meanwhile that we are gone.
pub(super) fn wait(session: &Session<'_>, is_over: impl Fn() -> bool) {
    let mut next_beat = Instant::now();
    while !is_over() {
        if Instant::now() >= next_beat {
            session.beat();
            next_beat = Instant::now() + heartbeat::PERIOD;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn round(at_ms: u64, seen: &Seen) -> RoundReport {
    RoundReport {
        at_ms,
        paused_us: seen.look.paused_us,
        method: seen.look.method,
        doubts: seen.doubts.iter().cloned().chain(missing(&seen.live_heap, None)).collect(),
        ..RoundReport::default()
    }
}
