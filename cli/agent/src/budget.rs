//! What is more than it may be, and whom to detach from. Measured numbers only: nothing is foretold.

use std::{collections::HashMap, time::Duration};

use heapattach_text::quantity::bytes;

use crate::{config::Budget, facts::Key};

/// So much of the processor time is left to the ends of sessions, which cost something, too: all of them may end at once.
/// They took a fifth of what sessions did that were ended for their cost, one after the other.
const FOR_ENDS: f64 = 0.2;

/// What a session costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Processor time of its processes in the interval.
    pub processor: Duration,
    /// Memory of its processes.
    pub memory: u64,
    /// Events that it had in a second.
    pub events: f64,
    /// For how many milliseconds its target was stopped in the last hour.
    pub stopped_ms: f64,
}

/// Why a target is detached from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Excess {
    /// All sessions take so much of the processors, in percent.
    Processors(f64, f64),
    /// It has so many events a second.
    Events(f64, f64),
    /// It was stopped for so many milliseconds.
    Stopped(f64, f64),
    /// We take so much memory.
    Memory(u64, u64),
}

impl Excess {
    /// One word, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processors(..) => "processors",
            Self::Events(..) => "events",
            Self::Stopped(..) => "stopped",
            Self::Memory(..) => "memory",
        }
    }

    /// For people.
    pub fn told(self) -> String {
        match self {
            Self::Processors(found, limit) => {
                format!(
                    "sessions took {found:.2} % of the processors; may take {limit} %, with their ends"
                )
            }
            Self::Events(found, limit) => {
                format!("{found:.0} events a second; may have {limit:.0}")
            }
            Self::Stopped(found, limit) => {
                format!("stopped for {found:.1} ms in an hour; may be for {limit:.1} ms")
            }
            Self::Memory(found, limit) => {
                format!("heapattach takes {}; may take {}", bytes(found), bytes(limit))
            }
        }
    }
}

/// How much of the processors sessions may take until they are ended, in percent.
pub fn for_sessions(limits: &Budget) -> f64 {
    limits.processors_percent * (1.0 - FOR_ENDS)
}

/// Whom to detach from. `own`: what the agent itself costs; it counts, too. After that, if all costs what it
/// did before, everything is within its limits: so nothing is exceeded for longer than an interval, unless
/// the agent alone exceeds it.
pub fn over(
    limits: &Budget,
    costs: &HashMap<Key, Cost>,
    own: Cost,
    interval: Duration,
    processors: u32,
) -> Vec<(Key, Excess)> {
    let mut gone: HashMap<Key, Excess> = HashMap::new();
    for (key, cost) in costs {
        if cost.stopped_ms > limits.stopped_ms_per_hour {
            gone.insert(*key, Excess::Stopped(cost.stopped_ms, limits.stopped_ms_per_hour));
        } else if cost.events > limits.events_per_second {
            gone.insert(*key, Excess::Events(cost.events, limits.events_per_second));
        }
    }
    let whole = interval.as_secs_f64() * f64::from(processors.max(1));
    let share = |cost: &Cost| 100.0 * cost.processor.as_secs_f64() / whole.max(1e-9);
    let (may, limit) = (for_sessions(limits), limits.processors_percent);
    // The most expensive first: so the fewest are detached from.
    let mut order: Vec<_> = costs.iter().filter(|(key, _)| !gone.contains_key(key)).collect();
    order.sort_by(|a, b| b.1.processor.cmp(&a.1.processor).then(a.0.cmp(b.0)));
    let mut sum = share(&own) + order.iter().map(|(_, cost)| share(cost)).sum::<f64>();
    for (key, cost) in &order {
        if sum > may && !cost.processor.is_zero() {
            gone.insert(**key, Excess::Processors(sum, limit));
            sum -= share(cost);
        }
    }
    let mut order: Vec<_> = costs.iter().filter(|(key, _)| !gone.contains_key(key)).collect();
    order.sort_by(|a, b| b.1.memory.cmp(&a.1.memory).then(a.0.cmp(b.0)));
    let mut sum = order.iter().fold(own.memory, |sum, (_, cost)| sum.saturating_add(cost.memory));
    for (key, cost) in order {
        if sum > limits.memory && cost.memory > 0 {
            gone.insert(*key, Excess::Memory(sum, limits.memory));
            sum = sum.saturating_sub(cost.memory);
        }
    }
    let mut gone: Vec<_> = gone.into_iter().collect();
    gone.sort_by_key(|(key, _)| *key);
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    fn costs(all: &[(u64, u64, f64, f64)]) -> HashMap<Key, Cost> {
        let of = |(pid, &(micros, memory, events, stopped_ms)): (i32, &(u64, u64, f64, f64))| {
            let processor = Duration::from_micros(micros);
            (Key { pid, start: 1 }, Cost { processor, memory, events, stopped_ms })
        };
        (1..).zip(all).map(of).collect()
    }

    #[test]
    fn the_most_expensive_is_detached_from_and_the_rest_stays() {
        // 0.5 % of two processors in five seconds are 50 ms, of which 40 are for sessions.
        let all = costs(&[(30_000, 1, 0.0, 0.0), (10_000, 1, 0.0, 0.0), (15_000, 1, 0.0, 0.0)]);
        let gone = over(&Budget::default(), &all, Cost::default(), INTERVAL, 2);
        let [(key, Excess::Processors(found, _))] = gone[..] else { panic!("{gone:?}") };
        assert_eq!((key.pid, (found * 100.0).round()), (1, 55.0));
        let all = costs(&[(0, 1, 201.0, 0.0), (0, 1, 0.0, 50.1), (0, 1, 200.0, 50.0)]);
        let gone = over(&Budget::default(), &all, Cost::default(), INTERVAL, 2);
        assert_eq!(gone.iter().map(|one| one.1.name()).collect::<Vec<_>>(), ["events", "stopped"]);
    }

    proptest::proptest! {
        #[test]
        fn no_limit_is_exceeded_in_two_intervals_after_each_other(
            all in proptest::collection::vec(
                (0_u64..100_000, 0_u64..1 << 27, 0.0_f64..400.0, 0.0_f64..100.0), 0..50),
            processors in 1_u32..64,
        ) {
            let limits = Budget::default();
            let mut rest = costs(&all);
            for (key, _) in over(&limits, &rest, Cost::default(), INTERVAL, processors) {
                rest.remove(&key);
            }
            assert_eq!(over(&limits, &rest, Cost::default(), INTERVAL, processors), []);
            let sum: Duration = rest.values().map(|cost| cost.processor).sum();
            let may = INTERVAL.as_secs_f64() * f64::from(processors) * 0.004;
            assert!(sum.as_secs_f64() <= may + 1e-6);
            assert!(rest.values().map(|cost| cost.memory).sum::<u64>() <= limits.memory);
        }
    }
}
