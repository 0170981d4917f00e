//! What rules look at: the counters of one allocator, and what is known of its process.

use std::time::Duration;

use heapattach_census::counters::{AllocatorKind, Numbers, Statistics};
use serde::Serialize;

/// The process, and the machine that it runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// Its threads.
    pub threads: u64,
    /// Processors that it may use.
    pub cpus: u64,
    /// Its resident set.
    pub resident: u64,
    /// What of it is in transparent huge pages.
    pub anonymous_huge: u64,
    /// How long it runs, in seconds.
    pub running_s: u64,
    /// Threads that jemalloc has for its own work.
    pub background_threads: u64,
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What is counted.
    pub now: &'a Statistics,
    /// What was counted before, and how long ago: rates are of that time. Without, they are since the start.
    pub before: Option<(&'a Statistics, Duration)>,
    /// The process.
    pub conditions: &'a Conditions,
}

/// An arena whose threads fill their caches so often a second is one that they would wait for.
const BUSY: f64 = 1000.0;

impl Scene<'_> {
    /// Whether the allocator is that one.
    pub fn is(&self, allocator: AllocatorKind) -> bool {
        self.now.allocator == allocator
    }

    /// A setting that is a number.
    pub fn number(&self, setting: &str) -> Option<i64> {
        self.now.opt.get(setting)?.number()
    }

    /// How long threads waited for locks of these names, as a part of the time that all threads had, and how
    /// often. `bins`: those of all small classes.
    pub fn waits(&self, locks: &[&str]) -> (f64, u64) {
        let of = |statistics: &Statistics| {
            locks.iter().fold((0_u64, 0_u64), |(ns, waits), lock| {
                let numbers = match *lock {
                    "bins" => bins(statistics),
                    lock => statistics.mutex(lock),
                };
                let own = |name: &str| numbers.get(name).copied().unwrap_or(0);
                (ns.saturating_add(own("total_wait_time")), waits.saturating_add(own("num_wait")))
            })
        };
        let (mut ns, mut waits) = of(self.now);
        let mut time = Duration::from_secs(self.conditions.running_s.max(1));
        if let Some((before, passed)) = self.before {
            let (old_ns, old_waits) = of(before);
            (ns, waits) = (ns.saturating_sub(old_ns), waits.saturating_sub(old_waits));
            time = passed;
        }
        let threads = self.now.total("nthreads").max(1);
        // How long a process runs is known to a second.
        ((ns as f64 / 1e9 / (time.as_secs_f64().max(1e-3) * threads as f64)).min(1.0), waits)
    }

    /// So few arenas are enough for its threads and processors. Nothing where each arena is come to so often that
    /// threads would wait for one that they share.
    pub fn enough_arenas(&self) -> Option<u64> {
        let fills = |own: &Statistics| {
            let classes = own.arenas.iter().flat_map(|arena| &arena.bins);
            classes
                .filter_map(|class| class.numbers.get("nfills"))
                .fold(0, |sum: u64, own| sum.saturating_add(*own))
        };
        let mut now = fills(self.now);
        let mut time = Duration::from_secs(self.conditions.running_s.max(1));
        if let Some((before, passed)) = self.before {
            (now, time) = (now.saturating_sub(fills(before)), passed);
        }
        let arenas = self.now.total("narenas").max(1);
        let is_busy = now as f64 > BUSY * arenas as f64 * time.as_secs_f64().max(1e-3);
        let threads = self.now.total("nthreads").div_ceil(super::arenas_few::THREADS);
        (!is_busy).then(|| threads.max(self.conditions.cpus).max(1))
    }

    /// Settings of jemalloc as they are typed: builds give the variable a prefix.
    pub fn conf(&self, settings: &str) -> String {
        let variable = match self.now.variable.as_str() {
            "" => "MALLOC_CONF",
            variable => variable,
        };
        format!("{variable}={settings}")
    }

    /// Bytes of dirty pages that can be resident: pages that were never touched are counted by the allocator, and
    /// not by the kernel.
    pub fn dirty(&self) -> u64 {
        let (dirty, active) = (self.now.total("dirty"), self.now.total("active"));
        let all = u128::from(dirty.saturating_add(active).max(1));
        let resident = u128::from(self.conditions.resident);
        let part = u128::from(dirty) * resident / all;
        dirty.min(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Of what time that is.
    pub fn when(&self) -> &'static str {
        if self.before.is_some() { "now" } else { "since the start" }
    }

    /// Whether arenas count their calls.
    pub fn has_counts(&self) -> bool {
        self.now.stats.contains_key("allocated")
    }
}

/// Locks of all small classes together.
fn bins(statistics: &Statistics) -> Numbers {
    let mut sum = Numbers::new();
    for class in statistics.arenas.iter().flat_map(|arena| &arena.bins) {
        heapattach_census::counters::add(&mut sum, &class.mutex);
    }
    sum
}
