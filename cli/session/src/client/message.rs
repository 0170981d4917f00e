//! What the tracing process tells the command, one JSON object a line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use heapattach_ledger::Mark;
use heapattach_report::{Report, RoundReport, Trigger};

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
    /// What a runtime keeps itself is read.
    Reading {
        /// The process.
        pid: i32,
        /// Its command line.
        command: String,
        /// What is read, and what is done for that.
        what: String,
        /// Where the session is written to, if to a file with a name.
        recording: Option<PathBuf>,
    },
    /// A moment is marked in the recording.
    Marked(Mark),
    /// Memory of a process certainly grows.
    Grows(Growing),
    /// What was waited for came, and the session ends with it.
    Reached {
        /// The process.
        pid: i32,
        /// What came.
        trigger: Trigger,
    },
    /// One of several checks is made.
    Checked(RoundReport),
    /// Counted so far.
    Progress {
        /// Calls.
        calls: u64,
        /// Bytes requested.
        bytes: u64,
    },
    /// Memory is looked through: so many bytes of so many.
    Looking {
        /// Bytes so far.
        done: u64,
        /// Of so many.
        all: u64,
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

/// A process whose memory certainly grows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Growing {
    /// The process.
    pub pid: i32,
    /// How it grows.
    pub trigger: Trigger,
    /// The moment, which is marked in the recording.
    pub mark: Mark,
    /// The file of that, if it has a name.
    pub recording: Option<PathBuf>,
}

/// What the command asks of the tracing process; one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Request {
    /// Detach now.
    Detach = b'd',
    /// Mark this moment.
    Mark = b'm',
    /// The time is over, as that of the whole family is.
    Over = b'o',
}
