//! Where what a slot saw goes besides the spool. A slot sees only blocks that were born in it, so what is in
//! use at its end is called `survived`, never `inuse`.

use std::path::PathBuf;

use crate::facts::Key;

/// A profile of one slot, or of one interval of a process that is watched all the time.
#[derive(Clone, Debug)]
pub struct SlotProfile {
    /// The process.
    pub key: Key,
    /// What it is called.
    pub name: String,
    /// By which rule it was watched.
    pub rule: String,
    /// From and until when, in seconds since 1970.
    pub time: (u64, u64),
    /// The profile, in pprof's format, with gzip.
    pub path: PathBuf,
}

/// Takes profiles as they become ready.
pub trait OnSlot {
    /// One is ready. The file stays until the spool has no room: a taker that needs it longer copies it. Must not
    /// wait: the agent watches processes meanwhile.
    fn ready(&mut self, profile: &SlotProfile);
}
