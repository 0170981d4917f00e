//! What waits to be sent to one backend, and when it is tried: no thread, no clock, no network.
//!
//! Bounded by bytes and by age. What was made is sent, dropped or queued, at every moment: [`Counts::adds_up`].

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{reply::Outcome, wire::Request};

/// After the first failure, and the most between two attempts.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// How much waits, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of bodies.
    pub bytes: u64,
    /// Older ones are not taken by the backend either.
    pub age: Duration,
}

/// What became of what was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were made.
    pub made: u64,
    /// That the backend took.
    pub sent: u64,
    /// That it refused.
    pub refused: u64,
    /// That became too old.
    pub aged: u64,
    /// That had to make room.
    pub displaced: u64,
    /// Attempts beyond the first.
    pub retried: u64,
    /// That wait, the one that is being sent among them.
    pub queued: u64,
    /// The bytes of these.
    pub queued_bytes: u64,
}

impl Counts {
    /// What was not sent, and will not be.
    pub fn dropped(&self) -> u64 {
        self.refused + self.aged + self.displaced
    }

    /// Whether all that was made is accounted for.
    pub fn adds_up(&self) -> bool {
        self.made == self.sent + self.dropped() + self.queued
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// To send this.
    Send(Arc<Request>),
    /// To wait so long.
    Wait(Duration),
    /// To wait for something to send.
    Idle,
}

#[derive(Debug)]
struct Item {
    request: Arc<Request>,
    made: Duration,
    attempts: u32,
}

/// What waits. All times are since one moment.
#[derive(Debug)]
pub struct Outbox {
    bounds: Bounds,
    items: VecDeque<Item>,
    in_flight: Option<Item>,
    counts: Counts,
    delay: Duration,
    not_before: Duration,
}

impl Outbox {
    /// An empty one.
    pub fn new(bounds: Bounds) -> Self {
        let (items, in_flight, counts) = Default::default();
        Self { bounds, items, in_flight, counts, delay: FIRST_DELAY, not_before: Duration::ZERO }
    }

    /// What became of what was made.
    pub fn counts(&self) -> Counts {
        let waiting = self.items.iter().chain(&self.in_flight);
        let queued_bytes = waiting.clone().map(|item| item.request.body.len() as u64).sum();
        Counts { queued: waiting.count() as u64, queued_bytes, ..self.counts }
    }

    /// Adds one; the oldest make room.
    pub fn put(&mut self, now: Duration, request: Arc<Request>) {
        self.counts.made += 1;
        self.items.push_back(Item { request, made: now, attempts: 0 });
        self.drop_old(now);
        self.make_room();
    }

    /// What is to be done now. What is to be sent is out until [`Self::done`].
    pub fn next(&mut self, now: Duration) -> Next {
        self.drop_old(now);
        if self.items.is_empty() || self.in_flight.is_some() {
            return Next::Idle;
        }
        if let Some(wait) = self.not_before.checked_sub(now).filter(|wait| !wait.is_zero()) {
            return Next::Wait(wait);
        }
        let Some(mut item) = self.items.pop_front() else { return Next::Idle };
        self.counts.retried += u64::from(item.attempts > 0);
        item.attempts = item.attempts.saturating_add(1);
        let request = item.request.clone();
        self.in_flight = Some(item);
        Next::Send(request)
    }

    /// What became of the one that was out. `chance` is from 0 to 1: not all come again at once.
    pub fn done(&mut self, now: Duration, outcome: &Outcome, chance: f64) {
        let Some(item) = self.in_flight.take() else { return };
        match outcome {
            Outcome::Sent => self.counts.sent += 1,
            Outcome::Refused(_) => self.counts.refused += 1,
            Outcome::Again(_, after) => {
                let own = self.delay.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
                // What a backend wants is done, if it is not out of all reason.
                let wait = after.map_or(own, |after| own.max(after.min(self.bounds.age)));
                self.not_before = now.saturating_add(wait);
                self.delay = (self.delay * 2).min(LONGEST_DELAY);
                self.items.push_front(item);
                self.drop_old(now);
                self.make_room();
                return;
            }
        }
        // It answers.
        (self.delay, self.not_before) = (FIRST_DELAY, Duration::ZERO);
    }

    /// All is tried once more, at once.
    pub fn hurry(&mut self) {
        (self.delay, self.not_before) = (FIRST_DELAY, Duration::ZERO);
    }

    fn make_room(&mut self) {
        while self.counts().queued_bytes > self.bounds.bytes && self.items.pop_front().is_some() {
            self.counts.displaced += 1;
        }
    }

    fn drop_old(&mut self, now: Duration) {
        let age = self.bounds.age;
        while self.items.front().is_some_and(|item| now.saturating_sub(item.made) > age) {
            self.items.pop_front();
            self.counts.aged += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 1000, age: Duration::from_secs(3000) };

    fn request(size: usize) -> Arc<Request> {
        Arc::new(Request { kind: "x", is_compressed: false, body: vec![0; size] })
    }

    fn again(after: Option<u64>) -> Outcome {
        Outcome::Again("no".to_owned(), after.map(Duration::from_secs))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn attempts_become_rarer_up_to_five_minutes_and_old_ones_go() {
        let mut outbox = Outbox::new(BOUNDS);
        outbox.put(at(0), request(10));
        let (mut now, mut waits) = (at(0), Vec::new());
        loop {
            match outbox.next(now) {
                Next::Send(_) => outbox.done(now, &again(None), 1.0),
                Next::Wait(time) => {
                    waits.push(time.as_millis());
                    now += time;
                }
                Next::Idle => break,
            }
        }
        assert_eq!(waits[..4], [500, 1000, 2000, 4000]);
        assert_eq!(*waits.iter().max().unwrap(), 300_000);
        let counts = outbox.counts();
        assert!((at(3000)..at(3301)).contains(&now), "{now:?}");
        assert_eq!((counts.made, counts.aged, counts.queued), (1, 1, 0));
        assert_eq!(counts.retried, waits.len() as u64 - 1);
    }

    #[test]
    fn a_backend_says_when_to_come_again_and_success_forgets_failures() {
        let mut outbox = Outbox::new(BOUNDS);
        (0..3).for_each(|_| outbox.put(at(0), request(10)));
        assert!(matches!(outbox.next(at(0)), Next::Send(_)));
        outbox.done(at(0), &again(Some(60)), 0.0);
        assert_eq!(outbox.next(at(10)), Next::Wait(at(50)));
        assert!(matches!(outbox.next(at(60)), Next::Send(_)));
        assert_eq!(outbox.next(at(60)), Next::Idle, "one at a time");
        outbox.done(at(60), &Outcome::Sent, 0.0);
        assert!(matches!(outbox.next(at(60)), Next::Send(_)));
        outbox.done(at(60), &again(Some(u64::MAX)), 0.0);
        assert_eq!(outbox.next(at(60)), Next::Wait(BOUNDS.age), "a year is out of all reason");
        outbox.hurry();
        assert!(matches!(outbox.next(at(60)), Next::Send(_)));
    }

    #[test]
    fn the_oldest_make_room() {
        let mut outbox = Outbox::new(BOUNDS);
        for size in [400, 500, 300] {
            outbox.put(at(0), request(size));
        }
        let counts = outbox.counts();
        assert_eq!((counts.displaced, counts.queued, counts.queued_bytes), (1, 2, 800));
        // Larger than all room.
        outbox.put(at(1), request(2000));
        let counts = outbox.counts();
        assert_eq!((counts.displaced, counts.queued), (4, 0));
        assert!(counts.adds_up());
    }

    proptest! {
        /// Hours with a backend that does anything, in no time.
        #[test]
        fn what_was_made_is_sent_dropped_or_queued(steps in prop::collection::vec((0_u64..900, 0_usize..600, 0_u8..6), 1..200)) {
            let (mut outbox, mut now) = (Outbox::new(BOUNDS), at(0));
            for (seconds, size, what) in steps {
                now += at(seconds);
                match what {
                    0 | 1 => outbox.put(now, request(size)),
                    _ => if let Next::Send(_) = outbox.next(now) {
                        // One may come while another is out.
                        outbox.put(now, request(size));
                        prop_assert!(outbox.counts().adds_up());
                        let outcome = match what {
                            2 => Outcome::Sent,
                            3 => Outcome::Refused(String::new()),
                            4 => again(None),
                            _ => again(Some(seconds)),
                        };
                        outbox.done(now, &outcome, 0.3);
                    },
                }
                let counts = outbox.counts();
                prop_assert!(counts.adds_up(), "{counts:?}");
                prop_assert!(counts.queued_bytes <= BOUNDS.bytes + 600, "{counts:?}");
            }
        }
    }
}
