//! What a session found, as data: the JSON report, and what the text is made of.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    check_report::CheckReport, expense::Expense, interpreter_report::InterpreterReport,
    site_report::HeapReport, stack_report::StacksReport, symbols::Missing, view::Summary,
};

/// Raised whenever a field changes its meaning or goes away; new fields may come.
pub const SCHEMA: &str = "heapattach/report/1";

/// The report of one session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The process.
    pub pid: i32,
    /// Its command line.
    pub command: String,
    /// `detached`, `exited`, `execed`, `refused` or `failed`.
    pub outcome: String,
    /// Why it ended, if not as asked: a guard rail, a signal.
    pub why: Option<String>,
    /// `untouched`, `restored` or `altered`.
    pub target: String,
    /// How long was counted.
    pub counted_ms: u64,
    /// Per hooked function.
    pub functions: Vec<FunctionReport>,
    /// What can be said of the heap, on one screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// What the heap holds, and who asked for it.
    pub heap: HeapReport,
    /// How well stacks could be followed.
    pub stacks: StacksReport,
    /// The interpreter in it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<InterpreterReport>,
    /// Memory of the target in pages of its own, when the session began and when it ended.
    pub rss: Option<[u64; 2]>,
    /// What could not be hooked.
    pub not_hooked: Vec<NotHooked>,
    /// Every stop of the target.
    pub stops: Vec<StopReport>,
    /// Modules still being loaded, and slots that hold something unknown: blind spots.
    pub blind: Vec<String>,
    /// Modules whose code was found without debug information.
    #[serde(default)]
    pub missing_symbols: Vec<Missing>,
    /// Where the session was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingReport>,
    /// What is still in the target.
    pub left: Vec<String>,
    /// The page that stays, if one does.
    pub stub_page: Option<String>,
    /// Children that were forked in mid-session and cleaned up.
    pub children: Vec<ChildReport>,
    /// Who forked it, where whole families are followed; 0 otherwise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parent: i32,
    /// What else was looked at: programs that the process was before, processes that it forked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Report>,
    /// Processes that were not looked at, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_looked_at: Option<NotLookedAt>,
    /// How long, in all, the target would not have survived the death of the tracing process.
    pub window_us: f64,
    /// Memory that was added to the target: reserved, and really used.
    pub memory: MemoryReport,
    /// What heapattach itself took.
    #[serde(default)]
    pub expense: Expense,
    /// What a check found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// `run` only, or a process that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitReport>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The exit status of heapattach.
    pub status: u8,
}

/// Processes that were not looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NotLookedAt {
    /// How many, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// In words, with what to type.
    pub why: String,
}

/// The file of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecordingReport {
    /// Where it is.
    pub path: PathBuf,
    /// How large it is; 0 if it could not be written to its end.
    pub bytes: u64,
    /// Its disk takes nothing any more, and may not give anything either.
    pub hangs: bool,
}

/// One hooked function.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FunctionReport {
    /// Its best-known name.
    pub function: String,
    /// Other names of the same function.
    pub aliases: Vec<String>,
    /// The module it is in.
    pub module: String,
    /// `entry` or `slots`.
    pub via: String,
    /// Why not by its entry, if that was asked for.
    pub why_slots: Option<String>,
    /// How many slots lead to it.
    pub slots: usize,
    /// Calls counted.
    pub calls: u64,
    /// Bytes they asked for.
    pub bytes: u64,
    /// By module of the caller, most calls first; only where every call is recorded.
    pub callers: Vec<CallerReport>,
}

/// The callers in one module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallerReport {
    /// The module.
    pub module: String,
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A function that is not hooked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NotHooked {
    /// The function.
    pub function: String,
    /// Its module.
    pub module: String,
    /// Why.
    pub why: String,
}

/// One stop of the target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StopReport {
    /// `attach`, `module` or `detach`.
    pub why: String,
    /// Threads stopped.
    pub threads: usize,
    /// From the first interruption to the last release.
    pub stopped_us: f64,
}

/// A child forked in mid-session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChildReport {
    /// The child.
    pub pid: i32,
    /// What is left in it.
    pub left: Vec<String>,
}

/// Memory added to the target.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Address space.
    pub reserved: u64,
    /// Memory in use for code, journal and counters.
    pub used: u64,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitReport {
    /// By exit, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl ExitReport {
    /// From the status that wait(2) gives.
    pub fn from_wait(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Code(status >> 8 & 0xff),
            signal => Self::Signal(signal),
        }
    }

    /// What a shell would say.
    pub fn shell_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl Report {
    /// A report of nothing yet.
    pub fn new(pid: i32, command: String) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            pid,
            command,
            outcome: "failed".to_owned(),
            target: "untouched".to_owned(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_told_as_a_shell_would() {
        assert_eq!(ExitReport::from_wait(3 << 8).shell_code(), 3);
        assert_eq!(ExitReport::from_wait(11).shell_code(), 139);
        assert_eq!(ExitReport::from_wait(11 | 0x80).shell_code(), 139);
        let text = serde_json::to_string(&ExitReport::Code(3)).unwrap();
        assert_eq!(text, r#"{"code":3}"#);
    }
}
