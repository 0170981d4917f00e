//! What the tracing process tells the command, one JSON object a line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use heapattach_ledger::Mark;
use heapattach_report::{Report, RoundReport};

/// A line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// `run`: the program has this pid.
    Started(i32),
    /// Attached: so many functions, and how long the target was stopped.
    Attached {
        /// The process.
        pid: i32,
        /// Its command line.
        command: String,
        /// Functions hooked.
        functions: usize,
        /// How long it was stopped.
        stopped_us: f64,
        /// Where the session is written to, if to a file with a name.
        recording: Option<PathBuf>,
    },
    /// A moment is marked in the recording.
    Marked(Mark),
    /// One of several checks is made.
    Checked(RoundReport),
    /// Counted so far.
    Progress {
        /// Calls.
        calls: u64,
        /// Bytes requested.
        bytes: u64,
    },
    /// Detached; names for the report are on their way over the network, so far.
    Fetching(String),
    /// Detached already, while the program of `run` still runs.
    Detached,
    /// The program of `run` ended; so many processes that it forked go on.
    Remain(usize),
    /// The end.
    Finished(Box<Report>),
}

/// What the command asks of the tracing process; one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Request {
    /// Detach now.
    Detach = b'd',
    /// Mark this moment.
    Mark = b'm',
}
