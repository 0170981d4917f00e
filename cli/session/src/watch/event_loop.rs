//! The session itself: the target runs, and this thread attends to it until the session is over.

use std::time::{Duration, Instant};

use heapattach_injector::watch::{Session, Watch, heartbeat};

use crate::{
    client::{
        channel::{Heard, Line},
        message::{Growing, Message},
    },
    own_memory,
    watch::{
        end::End,
        limits::Guard,
        notes::{Note, SharedNotes},
        options::{OnFull, WatchOptions},
        pace::{Quiet, SELDOM, TICK},
        schedule::Schedule,
        triggers::{Came, Triggers},
    },
};
use heapattach_report::Trigger;
use heapattach_text::printable::printable;

/// The link map is looked at so often, unless looking takes long itself.
const WATCH: Duration = Duration::from_millis(40);
const PROGRESS: Duration = TICK;
/// How often new threads are looked for, while the target does not rest.
const THREADS: Duration = Duration::from_millis(20);

/// What the beginning of a quiet time writes down is done by then.
const SETTLED: Duration = Duration::from_secs(60);

/// Slowing down goes on from here, if everything was recorded until then.
const LEAST_INTERVAL: u64 = 4096;

/// When each thing is to be done next.
struct Due {
    /// A look at the link map.
    look: Instant,
    /// Whether that is as often as ever while the target rests: blocks may be freed unseen.
    is_closely_watched: bool,
    /// A look for new threads.
    threads: Instant,
    /// A sign of life for the hooks.
    beat: Instant,
    /// A look at the counts.
    progress: Instant,
    /// A look at the limits, while the target rests.
    guard: Instant,
    /// The end, if it has a time.
    end: Option<Instant>,
    /// Once more what is free is returned, in a quiet time that has become a long one.
    trim: Option<Instant>,
}

impl Due {
    fn new(began: Instant, duration: Option<Duration>) -> Self {
        Self {
            look: began,
            is_closely_watched: true,
            threads: began,
            beat: began,
            progress: began + PROGRESS,
            guard: began,
            end: duration.map(|duration| began + duration),
            trim: None,
        }
    }

    /// When the first of all that is. While the target rests, what is left out is done at the tick.
    fn next(
        &self,
        is_quiet: bool,
        schedule: &Schedule<'_>,
        triggers: &Triggers,
    ) -> Option<Instant> {
        let next = match is_quiet {
            true => {
                let look = self.is_closely_watched.then_some(self.look);
                [Some(self.progress), look, self.end, schedule.next_mark(), triggers.next()]
            }
            false => {
                let next = [self.look, self.beat, self.progress, self.threads].into_iter().min();
                [next, self.end, Some(schedule.next()), triggers.next(), None]
            }
        };
        next.into_iter().flatten().min()
    }
}

/// Watches until something ends it, and has what is new in the target followed; answers what ended it,
/// and for how long was counted.
pub fn watch(
    line: &mut Line,
    session: &mut Session<'_>,
    options: &WatchOptions,
    mut schedule: Schedule<'_>,
    triggers: &mut Triggers,
    mut follow: impl FnMut(&mut Session<'_>, &SharedNotes),
) -> (End, Duration) {
    let target = session.target();
    let began = Instant::now();
    let mut guard = Guard::new(&target.process, options.max_overhead, options.max_memory);
    let mut due = Due::new(began, options.duration);
    let (mut lost, mut is_told, mut told) = (0, false, None);
    let mut quiet = Quiet::new(began);
    loop {
        let now = Instant::now();
        if due.end.is_some_and(|end| now >= end) {
            schedule.end(session);
            return (unless_over(session, End::Over), began.elapsed());
        }
        for mark in schedule.look(session) {
            line.send(&Message::Marked(mark));
        }
        match triggers.look(session, &schedule) {
            None => {}
            Some(Came::Last(trigger)) => {
                tell_growth(line, session, &schedule, triggers, trigger);
                line.send(&Message::Reached { pid: target.process.pid(), trigger });
                schedule.end(session);
                return (unless_over(session, End::Reached(trigger)), began.elapsed());
            }
            Some(Came::Once(trigger)) => {
                tell_growth(line, session, &schedule, triggers, trigger);
            }
        }
        if now >= due.look {
            match session.watch() {
                Watch::Runs => {}
                Watch::Execed => return (End::Execed, began.elapsed()),
                Watch::Ended => return (End::Ended, began.elapsed()),
            }
            // Never more than a twentieth of a processor for looking.
            due.look = Instant::now() + WATCH.max(now.elapsed() * 20);
            due.is_closely_watched = !session.sees_all_frees();
            if schedule.shared_notes().bell.is_quiet() && !due.is_closely_watched {
                // Whatever is loaded rings, where it is known by what.
                due.look += if session.loads().is_some() { schedule.pause() } else { SELDOM };
            }
        }
        if now >= due.threads {
            follow(session, schedule.shared_notes());
            schedule.look_at_threads(session);
            session.stream.place_stacks(&target.process, &target.memory);
            for request in session.mailboxes.requests(&target.memory) {
                let name = printable(&request.name);
                line.send(&Message::Marked(schedule.mark(format!("the program says {name}"))));
            }
            due.threads = Instant::now() + THREADS;
        }
        if now >= due.beat {
            session.beat();
            due.beat = now + heartbeat::PERIOD;
        }
        if now >= due.progress {
            let counts = session.stream.counts(&target.memory).unwrap_or_default();
            let (calls, bytes) = counts.totals();
            schedule.shared_notes().leave(Note::Lost(counts.lost));
            if options.on_full == OnFull::Slow && counts.lost.blocks > lost {
                lost = counts.lost.blocks;
                slow_down(session);
            }
            // Who hears it is woken.
            if told.replace((calls, bytes)) != Some((calls, bytes)) {
                line.send(&Message::Progress { calls, bytes });
            }
            if schedule.shared_notes().bell.was_stirred() {
                quiet.end(now);
            }
            let is_quiet = quiet.look(&counts, now) && !session.mailboxes.has_any();
            let begins = is_quiet && !schedule.shared_notes().bell.is_quiet();
            rest_or_ring(session, schedule.shared_notes(), is_quiet, quiet.allows_few(now));
            if begins {
                due.trim = Some(now + SETTLED);
            } else if is_quiet && due.trim.take_if(|trim| now >= *trim).is_some() {
                own_memory::trim();
            }
            if !schedule.shared_notes().bell.is_quiet() || now >= due.guard {
                let memory = session.patches.home.used() + session.stream.memory().unwrap_or(0);
                let rests = schedule.shared_notes().bell.is_quiet();
                let objection = guard.objection(&target.process, calls, memory, rests);
                if let Some(objection) = objection {
                    return (unless_over(session, End::Objection(objection)), began.elapsed());
                }
                due.guard = now + SELDOM;
            }
            let bell = &schedule.shared_notes().bell;
            due.progress = now + if bell.is_quiet() { schedule.pause() } else { PROGRESS };
        }
        let bell = &schedule.shared_notes().bell;
        let next = due.next(bell.is_quiet(), &schedule, triggers).unwrap_or(now);
        let pause = next.saturating_duration_since(Instant::now());
        let wire = bell.wire().filter(|_| bell.is_quiet());
        let (heard, has_ended) = line.listen_for_end(target, wire, pause);
        if bell.was_rung() {
            session.wake();
            quiet.end(Instant::now());
            let now = Instant::now();
            (due.look, due.threads, due.progress) = (now, now, now);
            schedule.hurry();
        }
        if has_ended && !std::mem::replace(&mut is_told, true) {
            // Nothing is left to wait for, and every wait would end at once.
            due.look = Instant::now();
        }
        match heard {
            None => {}
            Some(Heard::Mark) => {
                line.send(&Message::Marked(schedule.mark("by SIGUSR1".to_owned())));
            }
            Some(Heard::Detach | Heard::Gone) => {
                schedule.end(session);
                return (unless_over(session, End::Asked), began.elapsed());
            }
            Some(Heard::Over) => {
                schedule.end(session);
                return (unless_over(session, End::Over), began.elapsed());
            }
        }
    }
}

/// Samples half as often: rings are full.
fn slow_down(session: &mut Session<'_>) {
    let slower = (session.stream.interval * 2).clamp(LEAST_INTERVAL, 1 << 40);
    let memory = &session.target().memory;
    let _ = session.stream.set_interval(memory, slower);
}

/// Lets the hooks rest where nothing was called for a while, and has a target looked at again whose hooks are
/// called without a sample.
fn rest_or_ring(
    session: &mut Session<'_>,
    shared_notes: &SharedNotes,
    is_quiet: bool,
    allows_few: bool,
) {
    match (is_quiet, shared_notes.bell.is_quiet()) {
        (true, false) => {
            session.rest();
            own_memory::trim();
            shared_notes.bell.silence(allows_few);
        }
        (false, true) => shared_notes.bell.ring(),
        (true, true) | (false, false) => {}
    }
}

/// Growth is told when it is found, and what led to it can be read then.
fn tell_growth(
    line: &mut Line,
    session: &Session<'_>,
    schedule: &Schedule<'_>,
    triggers: &Triggers,
    trigger: Trigger,
) {
    if matches!(trigger, Trigger::Growth { .. }) {
        let (pid, mark) = (session.target().process.pid(), schedule.mark(trigger.to_string()));
        let recording = triggers.recording().cloned();
        line.send(&Message::Grows(Growing { pid, trigger, mark, recording }));
    }
}

/// Nothing is detached from a program that ended before; the last look may have been too early to see that.
fn unless_over(session: &Session<'_>, end: End) -> End {
    match session.is_over() {
        Some(Watch::Execed) => End::Execed,
        Some(Watch::Ended) => End::Ended,
        Some(Watch::Runs) | None => end,
    }
}
