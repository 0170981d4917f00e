//! The time from the attach to the moment of the check.

use std::time::{Duration, Instant};

use heapattach_injector::{
    family::{Attendant, Event},
    watch::{Session, Watch, heartbeat},
};

use crate::{
    client::channel::{Heard, Line},
    watch::notes::SharedNotes,
};

use super::{
    Inspection,
    end::End,
    growth_watch::GrowthMeasure,
    looked::lock,
    options::When,
    program::mail::{Mail, requested},
    reading::Reading,
    rounds::Rounds,
};

/// The link map is looked at so often.
const WATCH: Duration = Duration::from_millis(40);
/// No exec takes longer, unless the disk hangs.
const EXEC: Duration = Duration::from_secs(30);
/// How often new threads are looked for.
const THREADS: Duration = Duration::from_millis(20);

/// What goes on beside.
pub(super) struct Beside<'b, 'c, 'scope, 'env, 't> {
    pub(super) shared_notes: &'b SharedNotes,
    pub(super) reading: &'b Reading<'c>,
    pub(super) rounds: &'b mut Rounds<'scope, 'env, 't>,
    pub(super) growth_measure: &'b mut Option<GrowthMeasure<'c>>,
    pub(super) mail: &'b mut Mail,
}

/// Waits for a process whose memory is another program's already until it stands before that program's first
/// instruction: only there it can be taken over. To get there takes as long as its loader's file takes to be
/// read.
pub(super) fn meet_exec<'t>(
    exit_watch: &mut (dyn Attendant<'t> + 't),
    session: &Session<'t>,
    line: &mut Line,
) -> End {
    let began = Instant::now();
    loop {
        match exit_watch.attend() {
            Some(Event::Gone | Event::Ends) => return End::Gone,
            Some(Event::Execs) => return End::Execed,
            Some(Event::Signalled | Event::Reached) | None => {}
        }
        if session.is_over() == Some(Watch::Ended) {
            return End::Gone;
        }
        if began.elapsed() > EXEC {
            return End::Execed;
        }
        // What the command asks for now comes too late.
        match exit_watch.changes() {
            Some(changes) => line.listen_beside(changes, WATCH),
            None => line.listen(session.target(), WATCH),
        };
    }
}

impl<'a> Inspection<'a> {
    /// Watches until the moment has come.
    pub(super) fn watch<'t: 'scope, 'scope>(
        &mut self,
        line: &mut Line,
        session: &mut Session<'t>,
        beside: &mut Beside<'_, '_, 'scope, '_, 't>,
        mut exit_watch: Option<&mut (dyn Attendant<'t> + 't)>,
    ) -> End
    where
        'a: 'scope,
    {
        let Beside { shared_notes, reading, rounds, growth_measure, mail } = beside;
        let target = session.target();
        let began = Instant::now();
        let deadline = self.options.duration.map(|duration| began + duration);
        let (mut next_look, mut next_beat, mut next_threads) = (began, began, began);
        loop {
            if let Some(exit_watch) = &mut exit_watch {
                match exit_watch.attend() {
                    Some(Event::Ends) => return End::Ends,
                    Some(Event::Execs) => return End::Execed,
                    Some(Event::Signalled) => return End::Signalled,
                    Some(Event::Reached) if self.options.when == When::Exec => return End::Becomes,
                    Some(Event::Reached) => return End::Begins,
                    Some(Event::Gone) => return End::Gone,
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
                    Watch::Execed => {
                        let met = exit_watch.map(|exit_watch| meet_exec(exit_watch, session, line));
                        return met.unwrap_or(End::Execed);
                    }
                    Watch::Ended => return End::Gone,
                }
                self.follow(session);
                // Never more than a twentieth of a processor for looking.
                next_look = Instant::now() + WATCH.max(now.elapsed() * 20);
            }
            if now >= next_threads {
                let writers = session.stream.writers(&target.memory);
                shared_notes.ring_owners.look(&target.process, &target.memory, &writers, false);
                session.stream.place_stacks(&target.process, &target.memory);
                mail.request(requested(shared_notes));
                mail.look(session, rounds.elapsed());
                next_threads = Instant::now() + THREADS;
            }
            if now >= next_beat {
                session.beat();
                next_beat = now + heartbeat::PERIOD;
            }
            rounds.look(self, session, (reading, mail), line);
            if let Some(growth_measure) = growth_measure {
                growth_measure.look(session);
            }
            let next = [next_look, next_beat, next_threads].into_iter().chain(deadline);
            let next = next
                .chain(rounds.next())
                .chain(growth_measure.as_ref().map(GrowthMeasure::next))
                .min();
            let time = next.unwrap_or(now).saturating_duration_since(Instant::now());
            let heard = match exit_watch.as_ref().and_then(|exit_watch| exit_watch.changes()) {
                Some(changes) => line.listen_beside(changes, time),
                None => line.listen(target, time),
            };
            match heard {
                Some(Heard::Detach | Heard::Gone) => return End::Asked,
                Some(Heard::Mark | Heard::Over) | None => {}
            }
        }
    }

    /// Notes new modules, for their symbols.
    pub(super) fn follow(&mut self, session: &mut Session<'_>) {
        session.note_generations();
        if session.changes != self.changes {
            session.note_static_tls();
        }
        let is_busy = || self.symbols.try_lock().is_err();
        // While another thread reads names this one does not wait for them.
        if is_busy() {
            return;
        }
        if session.changes != self.changes {
            self.changes = session.changes;
            self.note(session.target());
        }
        lock(&self.symbols).note_generations();
        self.renew_will(session);
    }
}
