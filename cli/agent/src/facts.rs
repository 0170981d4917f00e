//! What is known of a process, and of the machine.

use std::time::Duration;

use crate::kubernetes::Pod;

/// A process that cannot be taken for a later one of the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its number.
    pub pid: i32,
    /// When it began, in ticks since the machine did.
    pub start: u64,
}

/// Memory that a control group may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// So many bytes are left,
    pub left: u64,
    /// of so many.
    pub limit: u64,
}

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Which.
    pub key: Key,
    /// Since when it runs.
    pub age: Duration,
    /// The kernel's short name.
    pub name: String,
    /// What it was called with and what file it runs, the last part of the path.
    pub names: Vec<String>,
    /// The file that it runs.
    pub executable: String,
    /// Its user by number,
    pub uid: u32,
    /// and by name, if there is one.
    pub user: Option<String>,
    /// Its control groups.
    pub cgroups: Vec<String>,
    /// Its pod, if it is in one.
    pub pod: Option<Pod>,
    /// Who traces it, or 0.
    pub tracer: i32,
    /// Whether it is of heapattach.
    pub is_ours: bool,
    /// The memory of the narrowest group, where there is a limit.
    pub headroom: Option<Headroom>,
    /// For how long, in percent, some of its group or machine waited for a processor of late.
    pub pressure: Option<f64>,
}

/// The machine, and now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// Seconds since 1970.
    pub now: u64,
    /// Processors.
    pub processors: u32,
    /// As of a process, of the whole machine.
    pub pressure: Option<f64>,
}
