//! The session itself: the target runs, and this thread attends to it until the session is over.

use std::time::{Duration, Instant};

use heapattach_injector::watch::{Session, Watch, heartbeat};

use crate::{
    client::{
        channel::{Heard, Line},
        message::{Growing, Message},
    },
    watch::{
        end::End,
        limits::Guard,
        notes::{Desk, Note},
        options::{OnFull, WatchOptions},
        pace::{Quiet, SELDOM, TICK},
        schedule::Watchman,
        triggers::{Came, Triggers},
    },
};
use heapattach_report::Trigger;
use heapattach_text::printable::printable;

/// The link map is looked at so often, unless looking takes long itself.
const WATCH: Duration = Duration::from_millis(40);
const PROGRESS: Duration = TICK;
/// How often new threads are looked for.
const THREADS: Duration = Duration::from_millis(20);

/// Slowing down goes on from here, if everything was recorded until then.
const LEAST_INTERVAL: u64 = 4096;

/// Watches until something ends it, and has what is new in the target followed; answers what ended it,
/// and for how long was counted.
pub fn watch(
    line: &mut Line,
    session: &mut Session<'_>,
    options: &WatchOptions,
    mut watchman: Watchman<'_>,
    triggers: &mut Triggers,
    mut follow: impl FnMut(&mut Session<'_>, &Desk),
) -> (End, Duration) {
    let target = session.target();
    let mut next_threads = Instant::now();
    let began = Instant::now();
    let guard = Guard::new(&target.process, options.max_overhead, options.max_memory);
    let deadline = options.duration.map(|duration| began + duration);
    let (mut next_look, mut next_beat, mut next_progress) = (began, began, began + PROGRESS);
    let (mut lost, mut is_told, mut told) = (0, false, None);
    let mut quiet = Quiet::new(began);
    let (mut is_closely_watched, mut next_guard) = (true, began);
    loop {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            watchman.end(session);
            return (unless_over(session, End::Over), began.elapsed());
        }
        for mark in watchman.look(session) {
            line.send(&Message::Marked(mark));
        }
        match triggers.look(session, &watchman) {
            None => {}
            Some(Came::Last(trigger)) => {
                tell_growth(line, session, &watchman, triggers, trigger);
                line.send(&Message::Reached { pid: target.process.pid(), trigger });
                watchman.end(session);
                return (unless_over(session, End::Reached(trigger)), began.elapsed());
            }
            Some(Came::Once(trigger)) => {
                tell_growth(line, session, &watchman, triggers, trigger);
            }
        }
        if now >= next_look {
            match session.watch() {
                Watch::Runs => {}
                Watch::Execed => return (End::Execed, began.elapsed()),
                Watch::Ended => return (End::Ended, began.elapsed()),
            }
            // Never more than a twentieth of a processor for looking.
            next_look = Instant::now() + WATCH.max(now.elapsed() * 20);
            is_closely_watched = !session.sees_all_frees();
            if watchman.desk().bell.is_quiet() && !is_closely_watched {
                next_look += TICK;
            }
        }
        if now >= next_threads {
            follow(session, watchman.desk());
            watchman.look_at_threads(session);
            session.stream.place_stacks(&target.process, &target.memory);
            for request in session.mailboxes.requests(&target.memory) {
                let name = printable(&request.name);
                line.send(&Message::Marked(watchman.mark(format!("the program says {name}"))));
            }
            next_threads = Instant::now() + THREADS;
        }
        if now >= next_beat {
            session.beat();
            next_beat = now + heartbeat::PERIOD;
        }
        if now >= next_progress {
            let counts = session.stream.counts(&target.memory).unwrap_or_default();
            let (calls, bytes) = counts.totals();
            watchman.desk().leave(Note::Lost(counts.lost));
            if options.on_full == OnFull::Slow && counts.lost.blocks > lost {
                lost = counts.lost.blocks;
                let slower = (session.stream.interval * 2).clamp(LEAST_INTERVAL, 1 << 40);
                let _ = session.stream.set_interval(&target.memory, slower);
            }
            // Who hears it is woken.
            if told.replace((calls, bytes)) != Some((calls, bytes)) {
                line.send(&Message::Progress { calls, bytes });
            }
            let bell = &watchman.desk().bell;
            match quiet.look(&counts, now) && !session.mailboxes.has_any() {
                true if !bell.is_quiet() => {
                    session.rest();
                    bell.silence();
                }
                // Called without a sample.
                false if bell.is_quiet() => bell.ring(),
                _ => {}
            }
            if !watchman.desk().bell.is_quiet() || now >= next_guard {
                let memory = session.patches.home.used() + session.stream.memory().unwrap_or(0);
                if let Some(objection) = guard.objection(&target.process, calls, memory) {
                    return (unless_over(session, End::Objection(objection)), began.elapsed());
                }
                next_guard = now + SELDOM;
            }
            next_progress = now + PROGRESS;
        }
        let bell = &watchman.desk().bell;
        let next = match bell.is_quiet() {
            // All else is done at the tick.
            true => {
                let look = is_closely_watched.then_some(next_look);
                [Some(next_progress), look, deadline, watchman.next_mark(), triggers.next()]
            }
            false => {
                let next = [next_look, next_beat, next_progress, next_threads].into_iter().min();
                [next, deadline, Some(watchman.next()), triggers.next(), None]
            }
        };
        let pause = next.into_iter().flatten().min().unwrap_or(now);
        let pause = pause.saturating_duration_since(Instant::now());
        let wire = bell.wire().filter(|_| bell.is_quiet());
        let (heard, has_ended) = line.listen_for_end(target, wire, pause);
        if bell.was_rung() {
            session.wake();
            quiet.end(Instant::now());
            (next_look, next_threads) = (Instant::now(), Instant::now());
            watchman.hurry();
        }
        if has_ended && !std::mem::replace(&mut is_told, true) {
            // Nothing is left to wait for, and every wait would end at once.
            next_look = Instant::now();
        }
        match heard {
            None => {}
            Some(Heard::Mark) => {
                line.send(&Message::Marked(watchman.mark("by SIGUSR1".to_owned())));
            }
            Some(Heard::Detach | Heard::Gone) => {
                watchman.end(session);
                return (unless_over(session, End::Asked), began.elapsed());
            }
            Some(Heard::Over) => {
                watchman.end(session);
                return (unless_over(session, End::Over), began.elapsed());
            }
        }
    }
}

/// Growth is told when it is found, and what led to it can be read then.
fn tell_growth(
    line: &mut Line,
    session: &Session<'_>,
    watchman: &Watchman<'_>,
    triggers: &Triggers,
    trigger: Trigger,
) {
    if matches!(trigger, Trigger::Growth { .. }) {
        let (pid, mark) = (session.target().process.pid(), watchman.mark(trigger.to_string()));
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
