//! Which of many points to try: all of them in the soak, a random spread of them in CI.
//!
//! The tests of a binary share one time (`BUDGET`): a further test that samples makes the suite no longer
//! than its first points take. Which points these are is told by the seed, which is printed.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{hazard::cycles, seed::Random};

/// From this many cycles on a run is a soak.
const SOAK: u64 = 100;
/// How long the points of all tests of one binary may take together, unless it is a soak.
const BUDGET: Duration = Duration::from_secs(48);
/// A test has this part of what is left when it begins: the first ones do not leave the last ones without any.
const PART: u32 = 4;
/// So many points are tried even where no time is left.
const LEAST: usize = 2;

/// What is left of the time of this binary.
static LEFT: Mutex<Duration> = Mutex::new(BUDGET);

/// Whether this run is to leave nothing out.
///
/// # Panics
/// If `HEAPATTACH_CYCLES` is not a number.
pub fn is_soak() -> bool {
    cycles() >= SOAK
}

/// Points `1..=last` in random order: all in the soak, else at most `most` and until the share of this test of the
/// time of its binary is used up, but two at least.
///
/// # Panics
/// If `HEAPATTACH_CYCLES` is not a number.
pub fn points(last: u64, most: usize, random: &mut Random) -> impl Iterator<Item = u64> + use<> {
    let mut points: Vec<u64> = (1..=last).collect();
    for index in (1..points.len()).rev() {
        let other = random.between(0, index as u64 + 1);
        points.swap(index, usize::try_from(other).unwrap_or(index));
    }
    if !is_soak() {
        points.truncate(most);
    }
    let share = (!is_soak()).then(|| Share::of(&LEFT, Instant::now()));
    Sampled { points: points.into_iter(), tried: 0, share }
}

/// Points of one test.
struct Sampled {
    points: std::vec::IntoIter<u64>,
    tried: usize,
    /// `None`: all of them, however long that takes.
    share: Option<Share>,
}

impl Iterator for Sampled {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let has_time = self.share.as_mut().is_none_or(|share| share.has_time(Instant::now()));
        self.tried += 1;
        if self.tried > LEAST && !has_time {
            return None;
        }
        self.points.next()
    }
}

/// The time of one test.
struct Share {
    left: Duration,
    /// When the last point was begun.
    last: Instant,
    /// What is left for all tests.
    of_all: &'static Mutex<Duration>,
}

impl Share {
    fn of(of_all: &'static Mutex<Duration>, now: Instant) -> Self {
        Self { left: *locked(of_all) / PART, last: now, of_all }
    }

    /// Takes the time since the last point off that of the test and that of all; whether the test has some left.
    fn has_time(&mut self, now: Instant) -> bool {
        let passed = now.duration_since(self.last);
        self.last = now;
        self.left = self.left.saturating_sub(passed);
        let mut all = locked(self.of_all);
        *all = all.saturating_sub(passed);
        !self.left.is_zero()
    }
}

/// A test that panicked with it leaves a number that is right.
fn locked(time: &Mutex<Duration>) -> MutexGuard<'_, Duration> {
    time.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_share_a_time_and_each_tries_two_points() {
        static LEFT: Mutex<Duration> = Mutex::new(Duration::from_secs(20));
        let (began, seconds) = (Instant::now(), Duration::from_secs);
        let mut first = Share::of(&LEFT, began);
        assert!(first.has_time(began + seconds(4)));
        assert!(!first.has_time(began + seconds(8)), "a quarter of 20 s is over");
        assert_eq!(Share::of(&LEFT, began).left, seconds(3));
        *locked(&LEFT) = Duration::ZERO;
        let points = || (1..=5).collect::<Vec<u64>>().into_iter();
        let share = Some(Share::of(&LEFT, began));
        assert_eq!(Sampled { points: points(), tried: 0, share }.collect::<Vec<_>>(), [1, 2]);
        assert_eq!(Sampled { points: points(), tried: 0, share: None }.count(), 5);
    }

    #[test]
    fn gives_each_point_once() {
        let mut points: Vec<u64> = points(50, 100, &mut Random::new(7)).collect();
        points.sort_unstable();
        assert_eq!(points, (1..=50).collect::<Vec<_>>());
    }
}
