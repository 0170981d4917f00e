//! The time from the attach to the moment of the check.

use std::time::{Duration, Instant};

use heapattach_injector::{
    heartbeat,
    keeper::{Event, Keeper},
    session::{Session, Watch},
};

use crate::{
    desk::Desk,
    line::{Heard, Line},
};

use super::{Inspection, end::End};

/// The link map is looked at so often.
const WATCH: Duration = Duration::from_millis(40);
/// How often new threads are looked for.
const THREADS: Duration = Duration::from_millis(20);

impl Inspection<'_> {
    /// Watches until the moment has come.
    pub(super) fn watch(
        &mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        desk: &Desk,
        mut keeper: Option<&mut Keeper<'_>>,
    ) -> End {
        let target = session.target();
        let began = Instant::now();
        let deadline = self.args.duration.map(|duration| began + duration);
        let (mut next_look, mut next_beat, mut next_threads) = (began, began, began);
        loop {
            if let Some(keeper) = &mut keeper {
                target.waiter.clear();
                match keeper.attend() {
                    Some(Event::Ends) => return End::Ends,
                    Some(Event::Execs) => return End::Execed,
                    Some(Event::Signalled) => return End::Signalled,
                    Some(Event::Reached) => return End::Begins,
                    None => {}
                }
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return End::Over;
            }
            if now >= next_look {
                match session.watch() {
                    Watch::Runs => {}
                    Watch::Execed => return End::Execed,
                    Watch::Ended => return End::Gone,
                }
                self.follow(session);
                // Never more than a twentieth of a processor for looking.
                next_look = Instant::now() + WATCH.max(now.elapsed() * 20);
            }
            if now >= next_threads {
                let writers = session.stream.writers(&target.memory);
                desk.roster.look(&target.process, &target.memory, &writers, false);
                session.stream.place_stacks(&target.process, &target.memory);
                next_threads = Instant::now() + THREADS;
            }
            if now >= next_beat {
                session.beat();
                next_beat = now + heartbeat::PERIOD;
            }
            let next = [next_look, next_beat, next_threads].into_iter().chain(deadline).min();
            let time = next.unwrap_or(now).saturating_duration_since(Instant::now());
            match line.listen_beside(target, keeper.is_some(), time) {
                Some(Heard::Detach | Heard::Gone) => return End::Asked,
                Some(Heard::Mark) | None => {}
            }
        }
    }

    /// Notes new modules, for their symbols.
    pub(super) fn follow(&mut self, session: &Session<'_>) {
        if session.changes != self.changes {
            self.changes = session.changes;
            self.note(session.target());
        }
    }
}
