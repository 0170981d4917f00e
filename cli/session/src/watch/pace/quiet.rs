//! Whether a target has done nothing for a while that a session is there for.

use std::time::{Duration, Instant};

use heapattach_injector::watch::Counts;

/// How often a quiet target is looked at.
pub const TICK: Duration = Duration::from_millis(500);
/// How often what takes longer is done then: what the system knows of its memory, and its limits.
pub const SELDOM: Duration = Duration::from_secs(2);
/// For so long nothing must have been called.
const CALM: Duration = Duration::from_secs(2);

const MINUTE: Duration = Duration::from_secs(60);

/// Between two looks at the rings of a target that has been quiet for `long`. What it begins with must find
/// room until the next one: at 2,048 records of a ring, 80,000 a second and thread at first, 10,000 after a
/// minute.
pub fn pause(is_exact: bool, long: Duration) -> Duration {
    Duration::from_millis(match is_exact {
        // Whatever comes is a record, and threads may wait for room.
        true => 5,
        false if long < MINUTE => 25,
        false => 200,
    })
}

/// Compares what is counted with what was counted before.
#[derive(Debug)]
pub struct Quiet {
    counted: (u64, u64, usize),
    since: Instant,
}

impl Quiet {
    /// Of a session that begins now.
    pub fn new(now: Instant) -> Self {
        Self { counted: (0, 0, 0), since: now }
    }

    /// Whether no hooked function was called for a while, by what is counted now.
    pub fn look(&mut self, counts: &Counts, now: Instant) -> bool {
        let (calls, bytes) = counts.totals();
        self.compare((calls, bytes, counts.threads), now)
    }

    fn compare(&mut self, counted: (u64, u64, usize), now: Instant) -> bool {
        if self.counted != counted {
            (self.counted, self.since) = (counted, now);
        }
        now.saturating_duration_since(self.since) >= CALM
    }

    /// Something happened.
    pub fn end(&mut self, now: Instant) {
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_it_is_quiet_the_longer_are_pauses() {
        let pauses = [1, 59, 60, 3600].map(|s| pause(false, Duration::from_secs(s)).as_millis());
        assert_eq!(pauses, [25, 25, 200, 200]);
        assert!(pause(true, 60 * MINUTE) < Duration::from_millis(10));
    }

    #[test]
    fn a_target_is_quiet_once_nothing_was_counted_for_a_while() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut quiet = Quiet::new(began);
        assert!(!quiet.compare((1, 10, 1), at(500)));
        assert!(!quiet.compare((1, 10, 1), at(2000)));
        assert!(quiet.compare((1, 10, 1), at(2500)));
        assert!(!quiet.compare((2, 10, 1), at(3000)), "a call of 0 bytes");
        assert!(quiet.compare((2, 10, 1), at(5000)));
        quiet.end(at(5001));
        assert!(!quiet.compare((2, 10, 1), at(7000)));
        assert!(quiet.compare((2, 10, 1), at(7001)));
    }
}
