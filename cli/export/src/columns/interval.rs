//! The intervals of a session: they meet at full minutes of the clock, so that those of many machines
//! are the same.

use std::{ops::Range, time::Duration};

/// Five minutes.
const LENGTH_MS: i64 = 300_000;

/// A session has no more of them; where it would, each is twice as long, and so on.
const MOST: i64 = 400;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it began, in milliseconds since 1970.
    pub start_ms: i64,
    /// How long it lasted: the first and the last are shorter than the others.
    pub lasted_ms: i64,
    /// Whether it is the last.
    pub is_last: bool,
}

impl Interval {
    /// The same, counted from when counting began. What came in while the session ended belongs to the last.
    pub fn window(&self, began_ms: i64) -> Range<Duration> {
        let since = |at: i64| {
            let millis = at.saturating_sub(began_ms).max(0).unsigned_abs();
            Duration::from_millis(millis)
        };
        // Longer than any session.
        let end = Duration::from_secs(u64::from(u32::MAX));
        let to = since(self.start_ms.saturating_add(self.lasted_ms));
        since(self.start_ms)..if self.is_last { end } else { to }
    }
}

/// All of a session; one of no length has one.
pub fn all(began_ms: i64, lasted_ms: u64) -> Vec<Interval> {
    let lasted = i64::try_from(lasted_ms).unwrap_or(i64::MAX);
    let end = began_ms.saturating_add(lasted);
    let mut length = LENGTH_MS;
    while lasted / length >= MOST {
        length = length.saturating_mul(2);
    }
    let mut all = Vec::new();
    let mut start_ms = began_ms;
    loop {
        let next = start_ms.div_euclid(length).saturating_add(1).saturating_mul(length);
        let is_last = next >= end;
        let lasted_ms = next.min(end).saturating_sub(start_ms);
        all.push(Interval { start_ms, lasted_ms, is_last });
        if is_last {
            return all;
        }
        start_ms = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_meet_at_full_minutes_and_are_all_of_the_session() {
        let all = all(299_000, 602_000);
        let told: Vec<_> = all.iter().map(|one| (one.start_ms, one.lasted_ms)).collect();
        assert_eq!(
            told,
            [(299_000, 1000), (300_000, 300_000), (600_000, 300_000), (900_000, 1000)]
        );
        assert_eq!(all[0].window(299_000), Duration::ZERO..Duration::from_secs(1));
        assert!(all[3].window(299_000).end > Duration::from_secs(1 << 31));
    }

    #[test]
    fn a_hostile_length_has_few_intervals() {
        for (began, lasted) in [(0, u64::MAX), (i64::MAX, u64::MAX), (i64::MAX - 5, 3), (7, 0)] {
            let all = all(began, lasted);
            assert!((1..=402).contains(&all.len()), "{began} {lasted}: {}", all.len());
        }
    }
}
