//! By what the reader of the rings of a quiet target knows that it does something again: it is the one that looks
//! most often then, and everything else sleeps for longer.

use std::time::Instant;

use heapattach_injector::watch::{Counts, Loads};
use heapattach_process::memory::Memory;

use super::quiet::is_low;

/// What was seen of a quiet target when it was last looked at.
#[derive(Debug, Default)]
pub struct Activity {
    loads: Option<Loads>,
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    calls: u64,
    threads: usize,
    loaded: Option<u64>,
    at: Instant,
}

impl Activity {
    /// Of a target whose loader says there what it has loaded.
    pub fn new(loads: Option<Loads>) -> Self {
        Self { loads, seen: None }
    }

    /// A time that is not quiet: the next look begins anew.
    pub fn forget(&mut self) {
        self.seen = None;
    }

    /// Whether it does more than a target that is quiet, to which a few calls may belong: this is counted now. A target that cannot be read any more
    /// has become another program, or is gone.
    pub fn has_begun(&mut self, counts: &Counts, allows_few: bool, memory: &Memory) -> bool {
        let loaded = self.loads.as_mut().and_then(|loads| loads.now(memory));
        let (calls, _) = counts.totals();
        let seen = Seen { calls, threads: counts.threads, loaded, at: Instant::now() };
        self.seen.replace(seen).is_some_and(|before| differs(before, seen, allows_few))
    }
}

fn differs(before: Seen, now: Seen, allows_few: bool) -> bool {
    let took = now.at.saturating_duration_since(before.at);
    let calls = now.calls.wrapping_sub(before.calls);
    before.threads != now.threads
        || before.loaded != now.loaded
        || if allows_few { !is_low(calls, took) } else { calls != 0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_few_calls_are_quiet_and_many_a_thread_or_a_module_are_not() {
        let at = Instant::now();
        let before = Seen { calls: 1000, threads: 2, loaded: Some(9), at };
        let later = at + Duration::from_millis(500);
        let now = Seen { calls: 1025, at: later, ..before };
        assert!(!differs(before, now, true) && differs(before, now, false));
        assert!(differs(before, Seen { calls: 2000, ..now }, true));
        assert!(differs(before, Seen { threads: 3, ..now }, true));
        assert!(differs(before, Seen { loaded: Some(10), ..now }, true));
        assert!(differs(before, Seen { loaded: None, ..now }, true), "another program by now");
    }
}
