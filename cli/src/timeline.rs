//! The memory of the process and of its control group, in the course of time.

use std::time::{Duration, Instant};

use heapattach_injector::proc::Process;

use crate::{guard::cgroup_memory, ledger::Moment};

/// At first so often, then half as often, and so on.
const FIRST: Duration = Duration::from_millis(100);
/// Moments before that.
const MOMENTS: u32 = 600;
/// To ask for the memory of a process that has much takes long, and what it wants to map meanwhile
/// may have to wait: never more than this part of the time is spent on it.
const SHARE: u32 = 100;

/// Version 1 of control groups writes a number like this where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Says when it is time to look.
#[derive(Debug)]
pub struct Timeline {
    next: Instant,
    interval: Duration,
    made: u32,
}

impl Timeline {
    /// A first look now.
    pub fn new(now: Instant) -> Self {
        Self { next: now, interval: FIRST, made: 0 }
    }

    /// When to look next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time; adds to a moment what the system knows of the process.
    pub fn look(&mut self, process: &Process, moment: impl FnOnce() -> Moment) -> Option<Moment> {
        let began = Instant::now();
        if began < self.next {
            return None;
        }
        let moment = with_memory(process, moment());
        self.made += 1;
        if self.made == MOMENTS {
            self.made = MOMENTS / 2;
            self.interval *= 2;
        }
        self.next = began + self.interval.max(began.elapsed() * SHARE);
        Some(moment)
    }
}

/// With the memory that a process has now.
pub fn with_memory(process: &Process, moment: Moment) -> Moment {
    let text = process.read("smaps_rollup").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let (cgroup, cgroup_limit) = cgroup_memory(process).unzip();
    let cgroup_limit = cgroup_limit.filter(|&limit| limit < NO_LIMIT);
    let (rss, pss, anonymous) = (bytes("Rss"), bytes("Pss"), bytes("Anonymous"));
    Moment { rss, pss, anonymous, cgroup, cgroup_limit, ..moment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_known() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut timeline = Timeline::new(Instant::now());
        let moment = timeline.look(&process, || Moment { at_ms: 7, ..Moment::default() }).unwrap();
        let (rss, anonymous) = (moment.rss.unwrap(), moment.anonymous.unwrap());
        assert!(moment.at_ms == 7 && anonymous > 0 && rss >= anonymous, "{moment:?}");
        assert!(timeline.look(&process, Moment::default).is_none(), "it is not time yet");
    }

    #[test]
    fn a_long_session_is_looked_at_ever_more_rarely() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut timeline = Timeline::new(Instant::now());
        for _ in 0..MOMENTS + MOMENTS / 2 {
            timeline.next = Instant::now();
            assert!(timeline.look(&process, Moment::default).is_some());
        }
        assert_eq!(timeline.interval, FIRST * 4);
    }
}
