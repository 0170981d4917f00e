//! Whether a target has done next to nothing for a while that a session is there for.

use std::time::{Duration, Instant};

use heapattach_abi::ring::RESERVE_SHIFT;
use heapattach_injector::watch::Counts;

/// How often what is counted is looked at.
pub const TICK: Duration = Duration::from_millis(500);
/// The longest that the rings of a target are not looked at.
const LONGEST: Duration = Duration::from_millis(700);
/// How often everything else is done of a quiet target: its modules, what the system knows of its memory, and
/// its limits.
pub const SELDOM: Duration = Duration::from_secs(2);
/// The same once it has been quiet for a minute. Hooks that hear no beat for 15 seconds switch themselves off.
pub const LATER: Duration = Duration::from_secs(5);
/// So often is looked, of a quiet target, whether there is a limit on its memory that was not there before.
pub const LIMITS: Duration = Duration::from_secs(30);
/// For so long nothing must have been called.
const CALM: Duration = Duration::from_secs(2);
/// Or next to nothing for so long: what came is told the less closely, and in the beginning of a session that is
/// how growth is found.
const CALM_WITH_FEW: Duration = MINUTE;
/// That is so many calls in a second.
const LOW: u64 = 100;
/// And so many between two looks, however short the time.
const LEAST: u64 = 50;

const MINUTE: Duration = Duration::from_secs(60);

/// So many records of samples a second and thread find room between two looks at rings of a target that has been
/// quiet for less than a minute, and for longer. What a thread begins with after a pause must find room until the
/// next look, and nothing wakes the reader: the payload makes no system call. At one sample in 512 KiB that are
/// 17 GiB, and 2 GiB, allocated and freed in a second.
const RATES: [u64; 2] = [71_680, 8_960];

/// Between two looks at rings of so many slots of a target that has been quiet for `long`.
pub fn pause(is_exact: bool, slots: u64, long: Duration) -> Duration {
    if is_exact {
        // Whatever comes is a record, and threads may wait for room.
        return Duration::from_millis(5);
    }
    // The last slots are for frees alone.
    let room = slots - (slots >> RESERVE_SHIFT);
    let rate = RATES[usize::from(long >= MINUTE)];
    Duration::from_micros(room * 1_000_000 / rate).min(LONGEST)
}

/// Whether so many calls in that time are next to nothing.
pub fn is_low(calls: u64, took: Duration) -> bool {
    let most = took.as_millis().saturating_mul(u128::from(LOW)) / 1000;
    u128::from(calls) <= most.max(u128::from(LEAST))
}

/// Compares what is counted with what was counted before.
#[derive(Debug)]
pub struct Quiet {
    counted: (u64, usize),
    at: Instant,
    /// When something was recorded last, something called, and more than next to nothing.
    stirred: Instant,
    called: Instant,
    busy: Instant,
}

impl Quiet {
    /// Of a session that begins now.
    pub fn new(now: Instant) -> Self {
        Self { counted: (0, 0), at: now, stirred: now, called: now, busy: now }
    }

    /// Whether no hooked function was called for a while, or next to none for a longer one, and by no new thread, by
    /// what is counted now.
    pub fn look(&mut self, counts: &Counts, now: Instant) -> bool {
        let (calls, _) = counts.totals();
        self.compare((calls, counts.threads), now)
    }

    fn compare(&mut self, counted: (u64, usize), now: Instant) -> bool {
        let (calls, threads) = std::mem::replace(&mut self.counted, counted);
        let took = now.saturating_duration_since(std::mem::replace(&mut self.at, now));
        if counted != (calls, threads) {
            self.called = now;
        }
        if threads != counted.1 || !is_low(counted.0.wrapping_sub(calls), took) {
            self.busy = now;
        }
        let for_long = |since, long| now.saturating_duration_since(since) >= long;
        for_long(self.stirred, CALM)
            && (for_long(self.called, CALM) || for_long(self.busy, CALM_WITH_FEW))
    }

    /// Whether a few calls are no reason to look again: they are what the target does all the time.
    pub fn allows_few(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.busy) >= CALM_WITH_FEW
    }

    /// Something happened.
    pub fn end(&mut self, now: Instant) {
        self.stirred = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_it_is_quiet_and_the_more_room_there_is_the_longer_are_pauses() {
        let pauses = |slots| {
            [1, 59, 60, 3600].map(|s| pause(false, slots, Duration::from_secs(s)).as_millis())
        };
        assert_eq!(pauses(2048), [25, 25, 200, 200]);
        assert_eq!(pauses(8192), [100, 100, 700, 700]);
        assert_eq!(pauses(128), [1, 1, 12, 12]);
        assert!(pause(true, 1 << 15, 60 * MINUTE) < Duration::from_millis(10));
    }

    #[test]
    fn a_target_is_quiet_once_nothing_was_called_for_a_while_or_next_to_nothing_for_a_minute() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut quiet = Quiet::new(began);
        assert!(!quiet.compare((1000, 1), at(500)));
        assert!(!quiet.compare((1000, 1), at(2000)));
        assert!(quiet.compare((1000, 1), at(2500)));
        assert!(!quiet.compare((1001, 1), at(3000)), "a call");
        assert!(!quiet.compare((1040, 1), at(60_000)) && !quiet.allows_few(at(60_000)));
        assert!(quiet.compare((1050, 1), at(60_500)), "a few for a minute");
        assert!(quiet.allows_few(at(60_500)));
        quiet.end(at(61_000));
        assert!(!quiet.compare((1050, 1), at(62_500)), "a record");
        assert!(quiet.compare((1051, 1), at(63_000)));
        assert!(!quiet.compare((2000, 1), at(63_500)), "many");
        assert!(!quiet.compare((2000, 2), at(64_000)), "a thread");
        assert!(quiet.compare((2000, 2), at(66_000)) && !quiet.allows_few(at(66_000)));
    }
}
