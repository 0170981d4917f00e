//! The memory of the process and of its control group, in the course of time.
//!
//! What the kernel keeps as a number is asked for at every moment: a few microseconds, however large the
//! process. What it has to walk page tables for takes the longer the more memory there is, and what the
//! process wants to map meanwhile may have to wait: that is asked for as often as a budget
//! allows.

use std::time::{Duration, Instant};

use heapattach_process::proc::Process;
use nix::unistd::{SysconfVar, sysconf};

use crate::watch::{limits::cgroup_memory, pace::LIMITS};
use heapattach_ledger::Moment;

/// At first so often, then half as often, and so on.
const FIRST: Duration = Duration::from_millis(100);
/// Moments before that.
const MOMENTS: u32 = 600;
/// Never more than this part of the time is spent on what takes long.
const SHARE: u32 = 100;

/// What the kernel tells of a process.
pub trait Told {
    /// A file of its folder in `/proc`, and how long it took to read; empty if it cannot be.
    fn file(&self, name: &str) -> (Vec<u8>, Duration);
    /// What its control group uses, and may.
    fn cgroup(&self) -> Option<(u64, u64)>;
}

impl Told for Process {
    fn file(&self, name: &str) -> (Vec<u8>, Duration) {
        let began = Instant::now();
        let text = self.read(name).unwrap_or_default();
        (text, began.elapsed())
    }

    fn cgroup(&self) -> Option<(u64, u64)> {
        cgroup_memory(self)
    }
}

/// Says when it is time to look.
#[derive(Debug)]
pub struct Timeline {
    next: Instant,
    interval: Duration,
    made: u32,
    /// When there may be another look at what takes long.
    next_walk: Instant,
    /// What was resident at the last one, and when that was.
    walked: Option<(Instant, [Option<u64>; 2])>,
    /// While the process rests, a control group without a limit is not looked at again before.
    no_limit_until: Option<Instant>,
}

impl Timeline {
    /// A first look now.
    pub fn new(now: Instant) -> Self {
        let (walked, no_limit_until) = Default::default();
        Self { next: now, interval: FIRST, made: 0, next_walk: now, walked, no_limit_until }
    }

    /// When to look next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// The next look is at this time.
    pub fn put(&mut self, next: Instant) {
        self.next = next;
    }

    /// Looks, if it is time; adds to a moment what the system knows of the process. Of one that rests what takes long
    /// is looked at when its numbers have changed, and seldom else.
    pub fn look(
        &mut self,
        now: Instant,
        process: &impl Told,
        rests: bool,
        moment: impl FnOnce() -> Moment,
    ) -> Option<Moment> {
        if now < self.next {
            return None;
        }
        let mut moment = with_resident(process, moment());
        if !rests || self.no_limit_until.is_none_or(|until| now >= until) {
            moment = with_group(process, moment);
            self.no_limit_until = moment.cgroup.is_none().then(|| now + LIMITS);
        }
        let numbers = [moment.rss, moment.anonymous];
        let is_known = |(at, known): (Instant, _)| known == numbers && now < at + LIMITS;
        if now >= self.next_walk && !(rests && self.walked.is_some_and(is_known)) {
            let took = walk(process, &mut moment);
            self.next_walk = now + took * SHARE;
            self.walked = Some((now, numbers));
        }
        self.made += 1;
        if self.made == MOMENTS {
            self.made = MOMENTS / 2;
            self.interval *= 2;
        }
        self.next = now + self.interval;
        Some(moment)
    }
}

/// With the memory that a process has now, however long reading that takes.
pub fn with_memory(process: &impl Told, moment: Moment) -> Moment {
    let mut moment = with_numbers(process, moment);
    walk(process, &mut moment);
    moment
}

/// With what the kernel keeps as a number.
pub fn with_numbers(process: &impl Told, moment: Moment) -> Moment {
    with_group(process, with_resident(process, moment))
}

fn with_resident(process: &impl Told, moment: Moment) -> Moment {
    let (rss, anonymous) = resident(process);
    Moment { rss, anonymous, ..moment }
}

fn with_group(process: &impl Told, moment: Moment) -> Moment {
    let (cgroup, cgroup_limit) = process.cgroup().unzip();
    Moment { cgroup, cgroup_limit, ..moment }
}

/// Bytes that are resident, and of these the ones that no file and no shared memory is behind.
pub fn resident(process: &impl Told) -> (Option<u64>, Option<u64>) {
    let (text, _) = process.file("statm");
    let text = String::from_utf8_lossy(&text);
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| size.try_into().ok());
    let page: u64 = page.unwrap_or(4096);
    let mut pages = text.split_ascii_whitespace().skip(1).map(|number| number.parse::<u64>().ok());
    // One that has ended has none.
    let (resident, shared) = (pages.next().flatten().filter(|n| *n > 0), pages.next().flatten());
    let own = resident.zip(shared).map(|(resident, shared)| resident.saturating_sub(shared));
    let bytes = |pages: Option<u64>| pages.and_then(|pages| pages.checked_mul(page));
    (bytes(resident), bytes(own))
}

/// With its part of shared pages. Answers how long that took.
fn walk(process: &impl Told, moment: &mut Moment) -> Duration {
    let (text, took) = process.file("smaps_rollup");
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    moment.pss = kib.and_then(|kib| kib.checked_mul(1024));
    took
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process whose pages take so long to walk.
    struct Slow(Duration);

    impl Told for Slow {
        fn file(&self, name: &str) -> (Vec<u8>, Duration) {
            match name {
                "statm" => (b"200000 130000 1000 9 0 190000 0\n".to_vec(), Duration::ZERO),
                "smaps_rollup" => (b"Rss: 520000 kB\nPss: 519000 kB\n".to_vec(), self.0),
                _ => (Vec::new(), Duration::ZERO),
            }
        }

        fn cgroup(&self) -> Option<(u64, u64)> {
            None
        }
    }

    /// The moments of twelve seconds, looked for every millisecond of an imagined clock.
    fn course(process: &Slow) -> Vec<Moment> {
        let began = Instant::now();
        let mut timeline = Timeline::new(began);
        let look = |ms| {
            let moment = || Moment { at_ms: ms, live: ms as f64, ..Moment::default() };
            timeline.look(began + Duration::from_millis(ms), process, false, moment)
        };
        (0..12_000).filter_map(look).collect()
    }

    #[test]
    fn our_own_memory_is_known() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let now = Instant::now();
        let mut timeline = Timeline::new(now);
        let moment = || Moment { at_ms: 7, ..Moment::default() };
        let moment = timeline.look(now, &process, false, moment).unwrap();
        let (rss, anonymous) = (moment.rss.unwrap(), moment.anonymous.unwrap());
        assert!(moment.at_ms == 7 && anonymous > 0 && rss >= anonymous, "{moment:?}");
        assert!(moment.pss.is_some_and(|pss| pss > 0), "{moment:?}");
        assert!(
            timeline.look(now, &process, false, Moment::default).is_none(),
            "it is not time yet"
        );
    }

    #[test]
    fn a_large_process_has_as_many_moments_as_a_small_one() {
        let small = course(&Slow(Duration::from_micros(100)));
        let large = course(&Slow(Duration::from_secs(2)));
        assert_eq!((small.len(), large.len()), (120, 120));
        let is_known = |moment: &Moment| {
            moment.rss == Some(130_000 * 4096) && moment.anonymous == Some(129_000 * 4096)
        };
        assert!(large.iter().all(is_known), "{large:?}");
        let walked = |moments: &[Moment]| moments.iter().filter(|m| m.pss.is_some()).count();
        assert_eq!((walked(&small), walked(&large)), (120, 1));
        // One walk of 30 ms is paid for by three seconds.
        assert_eq!(walked(&course(&Slow(Duration::from_millis(30)))), 4);
    }

    #[test]
    fn one_that_rests_is_walked_once_in_a_while() {
        let process = Slow(Duration::ZERO);
        let began = Instant::now();
        let mut timeline = Timeline::new(began);
        let mut walks = |seconds: std::ops::Range<u64>, rests| {
            let look = |second| {
                let now = began + Duration::from_secs(second);
                timeline.look(now, &process, rests, Moment::default).unwrap().pss.is_some()
            };
            seconds.map(look).filter(|walked| *walked).count()
        };
        assert_eq!(walks(0..20, false), 20);
        assert_eq!(walks(20..110, true), 3);
    }

    #[test]
    fn a_long_session_is_looked_at_ever_more_rarely() {
        let process = Slow(Duration::ZERO);
        let mut now = Instant::now();
        let mut timeline = Timeline::new(now);
        for _ in 0..MOMENTS + MOMENTS / 2 {
            assert!(timeline.look(now, &process, false, Moment::default).is_some());
            now = timeline.next();
        }
        assert_eq!(timeline.interval, FIRST * 4);
    }
}
