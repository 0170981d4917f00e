//! What comes from outside: a process that is looked at, and what is known of it at one moment.

use std::sync::Arc;

use heapattach_ledger::{Ledger, Mark};

/// A process that is looked at.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// What it is called.
    pub name: String,
    /// Its number.
    pub pid: i32,
    /// Where its figures come from: a file, an address; empty for a session of this command.
    pub from: String,
    /// Whether the session is one of this command: it can be ended, and moments marked in it.
    pub is_own: bool,
}

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Everything.
    pub ledger: Arc<Ledger>,
    /// Moments that were marked.
    pub marks: Vec<Mark>,
}

/// How it is with a source of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing is known yet, for this reason.
    #[default]
    Waiting,
    /// Snapshots come.
    Live,
    /// None comes at present, for this reason; it is tried again.
    Away(String),
    /// No more will come, for this reason.
    Over(String),
}
