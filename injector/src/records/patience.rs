//! For how long something that is missing is waited for.

use std::time::{Duration, Instant};

/// However busy the machine is, it is not waited for longer than so many times the patience.
const MOST: u32 = 12;

/// A moment from which on something is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    at: Instant,
    starved: Duration,
}

impl Since {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), starved: starved() }
    }

    /// Whether that is longer ago than `patience`. The time in which this thread got no processor does not
    /// count: the thread of the target that is waited for got none either.
    pub(super) fn is_over(self, patience: Duration) -> bool {
        let waited = self.at.elapsed();
        // Mostly it is not, and the kernel need not be asked.
        waited > patience && self.is_over_by(waited, starved(), patience)
    }

    fn is_over_by(self, waited: Duration, starved: Duration, patience: Duration) -> bool {
        let in_vain = starved.saturating_sub(self.starved);
        waited.saturating_sub(in_vain) > patience || waited > patience.saturating_mul(MOST)
    }
}

/// How long this thread has waited for a processor since it began; nothing if the kernel does not tell.
fn starved() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(delay(&text).unwrap_or(0))
}

/// The second of three numbers: nanoseconds on a processor, waiting for one, and how often.
fn delay(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_processor_does_not_count_and_is_bounded() {
        let [one, four, nine] = [1, 4, 9].map(Duration::from_secs);
        let since = Since { at: Instant::now(), starved: one };
        assert!(since.is_over_by(nine, one, four));
        // Six of nine seconds were spent waiting.
        assert!(!since.is_over_by(nine, one * 7, four));
        assert!(!since.is_over_by(four * 12, nine * 10, four));
        assert!(since.is_over_by(four * 13, nine * 10, four));
    }

    #[test]
    fn the_kernel_tells_how_long_a_thread_has_waited() {
        assert_eq!(delay("62514 1300 15\n"), Some(1300));
        assert_eq!(delay(""), None);
    }
}
