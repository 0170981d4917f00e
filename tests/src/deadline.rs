//! Waiting for something to become true, but not for ever.

use std::{
    thread,
    time::{Duration, Instant},
};

/// What a machine may take that is merely slow. Only a hang takes longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long is waited between two polls.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Polls `condition` until it gives a value; `None` when `limit` has passed first.
pub fn poll<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        // Asked once more after the end: the machine may have slept through the whole limit.
        let began = Instant::now();
        if let Some(value) = condition() {
            return Some(value);
        }
        if began >= end {
            return None;
        }
        // A condition that takes long, such as all of /proc, leaves the processors to those it waits for.
        thread::sleep((began.elapsed() * 3).clamp(BETWEEN.0, BETWEEN.1));
    }
}

/// Polls until `condition` holds.
///
/// # Panics
/// If it does not within `limit`; `what` ends the sentence "waited in vain for ...".
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let held = poll(limit, || condition().then_some(()));
    assert!(held.is_some(), "waited {limit:?} in vain for {what}");
}
