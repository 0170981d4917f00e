//! The memory profile that Go's runtime keeps itself, read from outside: no stop, no lock, no write.
//!
//! ```text
//! mbuckets -> bucket (stack, size) -> record: active (as of a collection), future (since) -> counts
//! ```
//!
//! Buckets are put before the others and never move or go away. What is active only grows, so two readings
//! that are equal are the state of one moment.

mod bucket;
mod list;
mod reading;

pub use bucket::{Bucket, Counts};
pub use reading::{Profile, ReadError, Reading};

/// Memory of a process that runs.
pub trait Live {
    /// Fills `buffer` from `at`; whether all of it could be read.
    fn read(&self, at: u64, buffer: &mut [u8]) -> bool;

    /// A word.
    fn word(&self, at: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read(at, &mut word).then(|| u64::from_le_bytes(word))
    }
}
