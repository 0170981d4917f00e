//! What a recording says of the places of a fixture, beside what the fixture says.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use heapattach_ledger::{Histogram, Ledger, Metric, Row};
use heapattach_recording::Recording;

use crate::truth::{Account, Accounts, whole};

/// A file for a recording, removed with the test.
#[derive(Debug)]
pub struct Recorded(pub PathBuf);

impl Recorded {
    /// A name that is free.
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Relaxed);
        let name = format!("heapattach-recorded-{}-{serial}.heapattach", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// What is in it.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn open(&self) -> Recording {
        let recording = Recording::open(&self.0);
        recording.unwrap_or_else(|error| panic!("{error}: {:?}", fs::metadata(&self.0)))
    }

    /// All of it, a ledger that is sound.
    ///
    /// # Panics
    /// If it is not.
    pub fn ledger(&self) -> Ledger {
        let ledger = self.open().ledger(None);
        assert!(ledger.is_sound(), "{ledger:?}");
        ledger
    }
}

impl Default for Recorded {
    fn default() -> Self {
        Self::new()
    }
}

impl AsRef<Path> for Recorded {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the code that made the call belongs to the function of this name: its own, or inlined
/// into it.
pub fn is_in(ledger: &Ledger, row: &Row, name: &str) -> bool {
    let calls: Vec<_> = ledger.calls(row.stack).collect();
    let end = calls.iter().position(|call| !call.is_inlined).map_or(calls.len(), |end| end + 1);
    calls[..end].iter().any(|call| {
        let function = call.function.name.as_str();
        let tail = function.rsplit_once("::").map_or("", |(_, tail)| tail);
        let anonymous = function.trim_start_matches("(anonymous namespace)::");
        [function, tail, anonymous.split('(').next().unwrap_or_default()].contains(&name)
    })
}

/// What an exact ledger says of these places.
///
/// # Panics
/// If a number is none of an exact ledger.
pub fn accounts(ledger: &Ledger, truth: &Accounts) -> Accounts {
    let account = |name: &String| {
        let rows = ledger.rows.iter().filter(|row| is_in(ledger, row, name));
        let number = |row: &Row, metric| {
            let measure = row.measure(metric);
            (whole(measure.count.value), whole(measure.bytes.value))
        };
        let sum = rows.fold(Account::default(), |sum, row| {
            let (blocks, bytes) = number(row, Metric::Allocated);
            let (live, live_bytes) = number(row, Metric::Live);
            Account {
                blocks: sum.blocks + blocks,
                bytes: sum.bytes + bytes,
                live: sum.live + live,
                live_bytes: sum.live_bytes + live_bytes,
            }
        });
        (name.clone(), sum)
    };
    truth.keys().map(account).collect()
}

/// Panics unless the parts of a ledger fit together.
///
/// # Panics
/// If they do not.
pub fn assert_consistent(what: &str, ledger: &Ledger) {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0);
    let count = |metric| ledger.total.measure(metric).count.value;
    let rows = |metric| ledger.rows.iter().map(|row| row.measure(metric).count.value).sum::<f64>();
    for metric in Metric::ALL {
        assert!(near(count(metric), rows(metric)), "{what}: {metric:?} of the rows and in all");
    }
    let sum = count(Metric::Freed) + count(Metric::Live);
    assert!(near(count(Metric::Allocated), sum), "{what}: {ledger:?}");
    let blocks = |of: fn(&Row) -> &Histogram| {
        ledger.rows.iter().flat_map(|row| of(row).buckets()).sum::<f64>()
    };
    assert!(near(blocks(|row| &row.sizes), count(Metric::Allocated)), "{what}: sizes");
    assert!(near(blocks(|row| &row.lifetimes), count(Metric::Freed)), "{what}: lifetimes");
    let peak = ledger.total.measure(Metric::Peak).bytes.value;
    assert!(near(peak, ledger.peak.value), "{what}: a peak of {peak} and of {:?}", ledger.peak);
    let live = ledger.total.measure(Metric::Live).bytes.value;
    assert!(peak >= live * (1.0 - 1e-9), "{what}: {live} live and {peak} at most");
    assert!(count(Metric::Temporary) <= count(Metric::Freed), "{what}: temporary");
}
