//! A recording that could not be written to its end.

use std::{error::Error, fmt, io, time::Duration};

/// Why it ends too early, and where.
#[derive(Debug)]
pub struct Cut {
    /// Why nothing more could be written.
    pub error: io::Error,
    /// What was written before, which is whole.
    pub bytes: u64,
    /// When that was, from the beginning of the recording; not known of a disk that hangs.
    pub after: Option<Duration>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Cut {}
