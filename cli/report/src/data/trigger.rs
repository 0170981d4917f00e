//! What the user has a session watch for, and what of it came.

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

use heapattach_profile::Range;
use heapattach_text::quantity::{bytes, clock};
use heapattach_verdict::figure::bytes_a_minute;
use serde::{Deserialize, Serialize};

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Trigger {
    /// Resident memory reached a limit.
    Rss {
        /// Milliseconds since counting began.
        at_ms: u64,
        /// Resident memory then.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Memory certainly grows at a rate or faster.
    Growth {
        /// Milliseconds since counting began.
        at_ms: u64,
        /// What grows.
        measure: Measured,
        /// How fast, with its 95 % CI.
        bytes_per_minute: Range,
        /// The rate that was waited for, in bytes per minute.
        limit: u64,
        /// Over how long it was seen to grow.
        window_ms: u64,
    },
}

/// Memory that may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// What the program has in use of the heap; blocks older than the session count when they are freed.
    Heap,
    /// Pages that the program mapped itself.
    Mapped,
    /// Anonymous pages of the process.
    Resident,
}

impl Display for Trigger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Rss { bytes: now, limit, .. } => {
                write!(f, "resident memory is {}, the limit {}", bytes(now), bytes(limit))
            }
            Self::Growth { measure, bytes_per_minute, window_ms, .. } => {
                let what = match measure {
                    Measured::Heap => "memory in use",
                    Measured::Mapped => "mapped memory",
                    Measured::Resident => "resident memory",
                };
                let rate = bytes_a_minute(bytes_per_minute.into());
                let window = clock(Duration::from_millis(window_ms));
                write!(f, "{what} grows by {rate}, seen over {window}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBI: f64 = 1_048_576.0;

    fn growth(measure: Measured) -> Trigger {
        let bytes_per_minute = Range { value: 2.0 * MEBI, low: 1.75 * MEBI, high: 2.25 * MEBI };
        Trigger::Growth { at_ms: 61_000, measure, bytes_per_minute, limit: 1, window_ms: 60_000 }
    }

    #[test]
    fn what_came_is_told_with_its_interval() {
        let told = growth(Measured::Heap).to_string();
        assert_eq!(
            told,
            "memory in use grows by 2.0 MiB/min (1.8 to 2.2 MiB/min), seen over 60.0 s"
        );
        let rss = Trigger::Rss { at_ms: 5, bytes: 3 << 20, limit: 2 << 20 };
        assert_eq!(rss.to_string(), "resident memory is 3.0 MiB, the limit 2.0 MiB");
    }

    #[test]
    fn it_travels_as_json() {
        let text = serde_json::to_string(&growth(Measured::Resident)).unwrap();
        assert!(
            text.starts_with(r#"{"kind":"growth","at_ms":61000,"measure":"resident""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Trigger>(&text).unwrap(), growth(Measured::Resident));
    }
}
