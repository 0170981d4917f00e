//! A backend and the thread that sends to it. What it does there holds nothing else up.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::Builder,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use heapattach_text::printable::printable;

use crate::{
    address::Address,
    outbox::{Bounds, Counts, Next, Outbox},
    reply::{Outcome, Reply},
    secret::Secret,
    transport::{Envelope, LONGEST, Transport},
    wire::Request,
};

/// Clocks that differ by less are taken for equal.
const CLOCK: i64 = 60;
/// What goes wrong again and again is not told more often.
const SILENCE: Duration = Duration::from_secs(60);

/// A place to send to.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Where.
    pub address: Address,
    /// What opens it, if anything has to, and the file that holds it: it may become another one.
    pub secret: Option<(PathBuf, Secret)>,
    /// Whose it is.
    pub tenant: Option<String>,
    /// Authorities that are believed, in PEM, instead of those of this machine.
    pub authorities: Option<Vec<u8>>,
    /// What waits, at most.
    pub bounds: Bounds,
}

impl Destination {
    /// Whether it can be sent to, as far as that is known without trying.
    ///
    /// # Errors
    /// If not; why.
    pub fn check(&self) -> Result<(), String> {
        Transport::new(&self.address, self.authorities.as_deref()).map(drop)
    }
}

/// Reads a text file, or says why not.
pub type ReadFile = Arc<dyn Fn(&Path) -> Result<String, String> + Send + Sync>;

/// What a sender needs of the outside.
#[derive(Clone)]
pub struct Effects {
    /// Says something to the user.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
    /// Reads a secret's file.
    pub read: ReadFile,
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effects")
    }
}

/// A backend's thread, and what waits for it.
#[derive(Debug)]
pub struct Sender {
    destination: Destination,
    transport: Transport,
    effects: Effects,
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

#[derive(Debug)]
struct State {
    outbox: Outbox,
    /// When all must be over.
    end: Option<Instant>,
    /// By how much the clock there is ahead, in seconds.
    ahead: Option<i64>,
    has_ended: bool,
}

impl Sender {
    /// Begins.
    ///
    /// # Errors
    /// If it cannot send, or no thread can be had.
    pub fn start(destination: Destination, effects: Effects) -> Result<Arc<Self>, String> {
        let transport = Transport::new(&destination.address, destination.authorities.as_deref())?;
        let outbox = Outbox::new(destination.bounds);
        let state = Mutex::new(State { outbox, end: None, ahead: None, has_ended: false });
        let (changed, began) = (Condvar::new(), Instant::now());
        let sender = Arc::new(Self { destination, transport, effects, state, changed, began });
        let thread = sender.clone();
        let spawned = Builder::new().name("push".to_owned()).spawn(move || thread.run());
        spawned.map_err(|error| format!("no thread to push: {error}"))?;
        Ok(sender)
    }

    /// Where it sends to.
    pub fn address(&self) -> &Address {
        &self.destination.address
    }

    /// Takes something to send.
    pub fn put(&self, request: Arc<Request>) {
        let now = self.began.elapsed();
        self.state().outbox.put(now, request);
        self.changed.notify_all();
    }

    /// What became of what it was given.
    pub fn counts(&self) -> Counts {
        self.state().outbox.counts()
    }

    /// By how many seconds the clock there is ahead, if that is known.
    pub fn ahead(&self) -> Option<i64> {
        self.state().ahead
    }

    /// From now on everything is tried until `end`, then no more.
    pub fn finish(&self, end: Instant) {
        let mut state = self.state();
        state.end = Some(end);
        state.outbox.hurry();
        self.changed.notify_all();
    }

    /// Waits until it has ended, until `end` at most.
    pub fn wait(&self, end: Instant) {
        let time = end.saturating_duration_since(Instant::now());
        let state = self.state();
        let _ = self.changed.wait_timeout_while(state, time, |state| !state.has_ended);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut talk = Talk::default();
        while let Some((request, time)) = self.next() {
            let secret = self.secret();
            let envelope = Envelope {
                url: &self.destination.address.url(),
                secret: secret.as_ref(),
                tenant: self.destination.tenant.as_deref(),
            };
            let reply = self.transport.send(&envelope, &request, time);
            let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let outcome = match &reply {
                Ok(reply) => reply.outcome(clock),
                Err(why) => Outcome::Again(printable(why), None),
            };
            let chance = RandomState::new().hash_one(0) % 1024;
            #[allow(clippy::cast_precision_loss)]
            let chance = chance as f64 / 1023.0;
            let now = self.began.elapsed();
            let mut state = self.state();
            state.outbox.done(now, &outcome, chance);
            drop(state);
            let hide =
                |text: &str| secret.as_ref().map_or(text.to_owned(), |one| one.hide_in(text));
            if let Some(told) = talk.of(&outcome, now) {
                (self.effects.say)(&hide(&format!("push to {}: {told}", self.destination.address)));
            }
            self.look_at_clock(reply.as_ref().ok(), clock);
        }
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// What to send next, and how long that may take; nothing at the end.
    fn next(&self) -> Option<(Arc<Request>, Duration)> {
        let mut state = self.state();
        loop {
            let left = state.end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let wait = match state.outbox.next(self.began.elapsed()) {
                Next::Send(request) => {
                    return Some((request, left.unwrap_or(LONGEST).min(LONGEST)));
                }
                Next::Idle if left.is_some() => return None,
                Next::Idle => LONGEST,
                Next::Wait(time) => time,
            };
            let wait = left.map_or(wait, |left| wait.min(left));
            let woken = self.changed.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The secret as its file has it now; as it was, if that cannot be read.
    fn secret(&self) -> Option<Secret> {
        let (path, known) = self.destination.secret.as_ref()?;
        let now = (self.effects.read)(path).ok().and_then(|text| Secret::of(&text).ok());
        Some(now.unwrap_or_else(|| known.clone()))
    }

    fn look_at_clock(&self, reply: Option<&Reply>, clock: Duration) {
        let Some(ahead) = reply.and_then(|reply| reply.ahead(clock)) else { return };
        let before = self.state().ahead.replace(ahead);
        let (is_off, was_off) =
            (ahead.abs() > CLOCK, before.is_some_and(|before| before.abs() > CLOCK));
        if is_off && !was_off {
            let (seconds, way) = (ahead.abs(), if ahead > 0 { "ahead of" } else { "behind" });
            (self.effects.say)(&format!(
                "push to {}: its clock is {seconds} s {way} this machine's: profiles appear at another time there, \
                 or are refused",
                self.destination.address
            ));
        }
    }
}

/// What was said of outcomes, so that the same is not said each time.
#[derive(Debug, Default)]
struct Talk {
    is_failing: bool,
    refused: Option<(String, Duration)>,
}

impl Talk {
    fn of(&mut self, outcome: &Outcome, now: Duration) -> Option<String> {
        match outcome {
            Outcome::Sent => std::mem::take(&mut self.is_failing).then(|| "sent again".to_owned()),
            Outcome::Again(why, _) => {
                let is_new = !std::mem::replace(&mut self.is_failing, true);
                is_new.then(|| format!("{why}; it is queued and tried again"))
            }
            Outcome::Refused(why) => {
                let is_known = self
                    .refused
                    .as_ref()
                    .is_some_and(|(known, at)| known == why && now.saturating_sub(*at) < SILENCE);
                if is_known {
                    return None;
                }
                self.refused = Some((why.clone(), now));
                Some(format!("{why}; the profile is dropped"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_again_and_again_is_told_once() {
        let mut talk = Talk::default();
        let again = Outcome::Again("status 503".to_owned(), None);
        let refused = Outcome::Refused("status 400".to_owned());
        let at = Duration::from_secs;
        assert!(talk.of(&again, at(0)).unwrap().contains("tried again"));
        assert_eq!(talk.of(&again, at(1)), None);
        assert!(talk.of(&refused, at(2)).unwrap().contains("dropped"));
        assert_eq!(talk.of(&refused, at(50)), None);
        assert!(talk.of(&refused, at(70)).is_some());
        assert_eq!(talk.of(&Outcome::Sent, at(71)).as_deref(), Some("sent again"));
        assert_eq!(talk.of(&Outcome::Sent, at(72)), None);
    }
}
