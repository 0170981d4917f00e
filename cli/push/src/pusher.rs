//! Makes profiles of all processes, time after time, and gives them to the backends' threads.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use heapattach_export::{Names, row_notes, rows};
use heapattach_ledger::Ledger;

use crate::{
    address::Backend,
    labels::Labels,
    outbox::Counts,
    sender::{Destination, Effects, Sender},
    told::Told,
    window::Window,
    wire::{self, Request},
};

/// Reads what is known of a process; if told so, as it is at the very end.
pub type Read = Box<dyn Fn(bool) -> Result<Arc<Ledger>, String> + Send>;

/// A process.
pub struct Source {
    /// What its series is called.
    pub labels: Labels,
    /// What is known of it.
    pub read: Read,
    /// Who names its code.
    pub names: Names,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("labels", &self.labels).finish_non_exhaustive()
    }
}

/// Sends.
#[derive(Debug)]
pub struct Pusher {
    senders: Vec<Arc<Sender>>,
    is_over: Arc<(Mutex<bool>, Condvar)>,
    maker: JoinHandle<Vec<Process>>,
}

#[derive(Debug)]
struct Process {
    source: Source,
    told: Told,
    /// How long the session was when it was told.
    lasted_ms: u64,
    /// Whether it was told as it is at its end.
    is_finished: bool,
}

impl Pusher {
    /// Sends from now on, each time after `every`.
    ///
    /// # Errors
    /// If nothing can be sent.
    pub fn start(
        sources: Vec<Source>,
        destinations: Vec<Destination>,
        every: Duration,
        effects: &Effects,
    ) -> Result<Self, String> {
        let start = |destination| Sender::start(destination, effects.clone());
        let senders: Vec<_> = destinations.into_iter().map(start).collect::<Result<_, _>>()?;
        let is_over = Arc::new((Mutex::new(false), Condvar::new()));
        let (over, all) = (is_over.clone(), senders.clone());
        let new =
            |source| Process { source, told: Told::default(), lasted_ms: 0, is_finished: false };
        let mut processes: Vec<_> = sources.into_iter().map(new).collect();
        let make = move || {
            let mut next = Instant::now() + every;
            loop {
                let is_over = over.0.lock().unwrap_or_else(PoisonError::into_inner);
                let time = next.saturating_duration_since(Instant::now());
                let waited = over.1.wait_timeout_while(is_over, time, |is_over| !*is_over);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return processes;
                }
                processes.iter_mut().for_each(|process| process.make(&all, false));
                // If that took longer than the time between two, the next one is not at once.
                next = (next + every).max(Instant::now() + every / 2);
            }
        };
        let maker = Builder::new().name("profiles".to_owned()).spawn(make);
        let maker = maker.map_err(|error| format!("no thread to make profiles: {error}"))?;
        Ok(Self { senders, is_over, maker })
    }

    /// The backends, for who tells figures.
    pub fn watch(&self) -> Watch {
        Watch(self.senders.clone())
    }

    /// Makes the last profiles, of what is known at the very end.
    pub fn last(self) -> Watch {
        *self.is_over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.is_over.1.notify_all();
        // One whose thread has ended by itself cannot be told to the end.
        let mut processes = self.maker.join().unwrap_or_default();
        processes.iter_mut().for_each(|process| process.make(&self.senders, true));
        Watch(self.senders)
    }
}

/// The backends, without the making of profiles.
#[derive(Clone, Debug)]
pub struct Watch(Vec<Arc<Sender>>);

impl Watch {
    /// Where is sent to, and what became of it.
    pub fn states(&self) -> Vec<State> {
        let state = |sender: &Arc<Sender>| State {
            to: sender.address().to_string(),
            counts: sender.counts(),
            ahead: sender.ahead(),
        };
        self.0.iter().map(state).collect()
    }

    /// Sends what waits, for so long at most.
    pub fn flush(&self, time: Duration) {
        let end = Instant::now() + time;
        self.0.iter().for_each(|sender| sender.finish(end));
        self.0.iter().for_each(|sender| sender.wait(end));
    }
}

/// A backend, and what became of what it was to be sent.
#[derive(Clone, Debug)]
pub struct State {
    /// Where.
    pub to: String,
    /// What became of it.
    pub counts: Counts,
    /// By how many seconds its clock is ahead.
    pub ahead: Option<i64>,
}

impl Process {
    fn make(&mut self, senders: &[Arc<Sender>], is_last: bool) {
        // While there is nothing yet, nothing is sent.
        let Ok(mut ledger) = (self.source.read)(is_last) else { return };
        if self.is_finished {
            return;
        }
        let lasted = ledger.about.lasted_ms;
        // One that is not written further, a session that was killed, say, tells nothing of now.
        if !is_last && lasted == self.lasted_ms {
            return;
        }
        self.is_finished = !ledger.about.outcome.is_empty();
        if ledger.total.mapped > 0 {
            ledger = Arc::new((*ledger).clone().with_all_mapped());
        }
        let rows = self.told.since(&ledger, &rows(&ledger));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let window = Window {
            ledger: &ledger,
            rows: &rows,
            time_nanos: u64::try_from(now).unwrap_or(u64::MAX),
            duration_nanos: lasted.saturating_sub(self.lasted_ms).max(1).saturating_mul(1_000_000),
            notes: &row_notes(&ledger),
            names: self.source.names,
        };
        self.lasted_ms = lasted;
        // Once for all of a kind.
        let made = Backend::ALL.map(|backend| {
            let is_wanted = senders.iter().any(|sender| sender.address().backend == backend);
            is_wanted.then(|| Arc::new(wire::request(backend, &self.source.labels, &window)))
        });
        for sender in senders {
            let made: Option<&Arc<Request>> = Backend::ALL
                .iter()
                .position(|backend| *backend == sender.address().backend)
                .and_then(|at| made[at].as_ref());
            made.into_iter().for_each(|request| sender.put(request.clone()));
        }
    }
}
