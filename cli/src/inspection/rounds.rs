//! Checks of a process that goes on: each takes a moment, lets the target run, and looks through the
//! moment in a thread of its own.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{Builder, Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use heapattach_injector::{heartbeat, session::Session};

use crate::{
    clock::Clock, compose::with_causes, line::Line, message::Message, round_report::RoundReport,
};

use super::{
    Inspection,
    conclusion::missing,
    end::End,
    mail::Mail,
    reading::Reading,
    sight::{Held, Moment, NO_READER, Seen, Sight, Tools},
    tally::Tally,
};

/// If a thread is in the middle of an allocation, or another check is not done, it is tried again
/// after so long, so often.
const AGAIN: Duration = Duration::from_millis(100);
const TRIES: u32 = 4;

/// All rounds of one inspection.
pub(super) struct Rounds<'scope, 'env: 'scope, 't> {
    scope: &'scope Scope<'scope, 'env>,
    clock: Clock,
    every: Option<Duration>,
    due: Option<Due>,
    /// When what the program asked for is tried again.
    asked: Option<Due>,
    running: Option<Running<'scope, 't>>,
    /// Which rules fit which stacks.
    known: HashMap<u32, Option<usize>>,
    /// Every check so far.
    pub(super) tally: Tally,
    /// What the last one saw.
    last: Option<Seen>,
}

/// The next round.
#[derive(Clone, Copy)]
struct Due {
    at: Instant,
    tries: u32,
}

/// A round that is being looked through.
struct Running<'scope, 't> {
    at_ms: u64,
    name: Option<String>,
    handle: ScopedJoinHandle<'scope, Seen>,
    held: Held<'t>,
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
        let due = first.map(|first| Due { at: Instant::now() + first, tries: 0 });
        let (known, tally) = Default::default();
        Self { scope, clock, every, due, asked: None, running: None, known, tally, last: None }
    }

    /// When something is to be done next.
    pub(super) fn next(&self) -> Option<Instant> {
        let due = self.due.as_ref().map(|due| due.at);
        let poll = self.running.as_ref().map(|_| Instant::now() + AGAIN / 10);
        due.into_iter().chain(poll).min()
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
        if self.running.as_ref().is_some_and(|running| running.handle.is_finished()) {
            self.conclude(line);
        }
        let now = Instant::now();
        let is_asked = mail.is_waiting() && self.asked.is_none_or(|asked| now >= asked.at);
        let is_due = self.due.is_some_and(|due| now >= due.at);
        if !is_asked && !is_due {
            return;
        }
        // What the program asked for comes first: a thread of it waits.
        let (due, name) = match is_asked {
            true => (&mut self.asked, mail.name()),
            false => (&mut self.due, None),
        };
        let tries = due.map_or(0, |due| due.tries);
        if self.running.is_some() {
            // Looking takes longer than they are apart: this one comes when that is done.
            *due = Some(Due { at: now + AGAIN / 10, tries });
            return;
        }
        *due = Some(Due { at: now + AGAIN, tries: tries + 1 });
        let name = name.as_deref();
        match self.begin(inspection, session, (reading, mail), name) {
            Ok(true) => {}
            Ok(false) if tries < TRIES => return,
            Ok(false) => {
                self.fail("a thread was always in the middle of an allocation", name, line);
            }
            Err(why) => self.fail(&why, name, line),
        }
        if is_asked {
            self.asked = None;
            mail.answer(session);
        } else {
            // One that was slept over is not made up for.
            self.due = self.every.map(|every| Due { at: now + every, tries: 0 });
        }
    }

    /// Takes the moment; answers whether it was a good one.
    fn begin<'a: 'scope>(
        &mut self,
        inspection: &Inspection<'a>,
        session: &Session<'t>,
        (reading, mail): (&Reading<'_>, &mut Mail),
        name: Option<&str>,
    ) -> Result<bool, String> {
        let choice = inspection.choose(session)?;
        let began = Instant::now();
        let (stop, busy) = session.stop_idle().map_err(|error| with_causes(&error))?;
        if busy.is_some() {
            stop.finish();
            return Ok(false);
        }
        let at_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let since = Instant::now();
        let recorder = reading.pause().ok_or(NO_READER)?;
        let heard = mail.heard(session, self.clock.elapsed());
        let moment = Moment { stop, began, since, choice, heard };
        let taken = inspection.take(session, moment, &recorder);
        reading.resume(recorder);
        let (sight, mut held): (Sight<'t>, Held<'t>) = taken?;
        let tools = Tools {
            args: inspection.args,
            rules: inspection.rules.clone(),
            known: std::mem::take(&mut self.known),
            symbols: Arc::clone(&inspection.symbols),
        };
        let looked = Arc::new(AtomicBool::new(false));
        let is_looked = Arc::clone(&looked);
        let look = move || {
            let seen = sight.look(tools.args);
            is_looked.store(true, Relaxed);
            seen.conclude(tools)
        };
        let handle = Builder::new().spawn_scoped(self.scope, look);
        let handle = handle.map_err(|error| format!("no thread to look with: {error}"))?;
        if held.is_stopped() {
            wait(session, || looked.load(Relaxed) || handle.is_finished());
            held.let_go();
        }
        let name = name.map(str::to_owned);
        self.running = Some(Running { at_ms, name, handle, held });
        Ok(true)
    }

    /// Takes over what a round saw.
    fn conclude(&mut self, line: &mut Line) {
        let Some(Running { at_ms, name, handle, held }) = self.running.take() else { return };
        let Ok(mut seen) = handle.join() else {
            held.abandon();
            return self.fail("the thread that looked failed", name.as_deref(), line);
        };
        held.finish(&mut seen);
        self.add((at_ms, name), seen, line);
    }

    fn add(&mut self, (at_ms, name): (u64, Option<String>), seen: Seen, line: &mut Line) {
        self.known.clone_from(seen.hush.known());
        let round = RoundReport { name, ..round(at_ms, &seen) };
        line.send(&Message::Checked(self.tally.add(&seen.checked.findings, round)));
        self.last = Some(seen);
    }

    fn fail(&mut self, why: &str, name: Option<&str>, line: &mut Line) {
        let at_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let error = Some(why.to_owned());
        let name = name.map(str::to_owned);
        let round = self.tally.push(RoundReport { at_ms, name, error, ..RoundReport::default() });
        line.send(&Message::Checked(round));
    }

    /// Ends a round that is still looked through.
    pub(super) fn end(&mut self, session: &Session<'_>, end: End, line: &mut Line) {
        self.due = None;
        if let Some(running) = &self.running {
            wait(session, || running.handle.is_finished());
        }
        if matches!(end, End::Execed | End::Gone) {
            let Some(Running { at_ms, name, handle, held }) = self.running.take() else { return };
            held.abandon();
            if let Ok(seen) = handle.join() {
                self.add((at_ms, name), seen, line);
            }
        } else {
            self.conclude(line);
        }
    }

    /// Which rules are known to fit which stacks.
    pub(super) fn known(&mut self) -> HashMap<u32, Option<usize>> {
        std::mem::take(&mut self.known)
    }

    /// Adds the last check, which was not a round.
    pub(super) fn add_last(&mut self, seen: &Seen) {
        if self.tally.count() > 0 {
            let at_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.tally.add(&seen.checked.findings, round(at_ms, seen));
        }
    }

    /// What the last round saw.
    pub(super) fn take_last(&mut self) -> Option<Seen> {
        self.last.take()
    }
}

/// Waits; the hooks are not to think meanwhile that we are gone.
fn wait(session: &Session<'_>, is_over: impl Fn() -> bool) {
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
        method: seen.look.method.clone(),
        doubts: seen.doubts.iter().cloned().chain(missing(&seen.census, None)).collect(),
        ..RoundReport::default()
    }
}
