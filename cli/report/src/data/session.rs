//! What a session found, as data: the JSON report, and what the text is made of.

use heapattach_ledger::{ExitReport, Outcome, Runtime};
use heapattach_symbols::Missing;
use heapattach_verdict::summary::Summary;
use serde::{Deserialize, Serialize};

use super::{
    check::CheckReport,
    heap::HeapReport,
    hooked::{FunctionReport, NotHooked},
    own_cost::OwnCost,
    recording::RecordingReport,
    stacks::StacksReport,
    status::Status,
    target::{ChildReport, MemoryReport, StopReport, TargetState},
    together::TogetherReport,
    trigger::Trigger,
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
    /// The runtime that keeps this heap, where the process has another one, which is a report of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heap_of: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it ended, if not as asked: a guard rail, a signal.
    pub why: Option<String>,
    /// What the user had it watched for, if that came: the session ended with it, or went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// How the target is left.
    pub target: TargetState,
    /// How long was counted.
    pub counted_ms: u64,
    /// Per hooked function.
    pub functions: Vec<FunctionReport>,
    /// What can be said of the heap, on one screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// What the heap holds, and what allocated it.
    pub heap: HeapReport,
    /// How well stacks could be followed.
    pub stacks: StacksReport,
    /// Runtimes of languages in it, and what is seen of their memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<Runtime>,
    /// Memory of the target in pages of its own, when the session began and when it ended.
    pub rss: Option<[u64; 2]>,
    /// What could not be hooked.
    pub not_hooked: Vec<NotHooked>,
    /// Records that waited for room in a ring.
    #[serde(default, skip_serializing_if = "is_none")]
    pub waited: u64,
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
    /// What places have in use in all processes, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<TogetherReport>,
    /// Processes that were not looked at, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_looked_at: Option<NotLookedAt>,
    /// How long, in all, a SIGKILL of the tracing process would have crashed the target;
    pub window_us: f64,
    /// how often it was so,
    #[serde(default)]
    pub window_times: u32,
    /// and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_why: Option<String>,
    /// Memory that was added to the target: reserved, and really used.
    pub memory: MemoryReport,
    /// What heapattach itself took.
    #[serde(default)]
    pub expense: OwnCost,
    /// What a check found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// `run` only, or a process that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitReport>,
    /// Whether it was killed, and wrote a core file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub core_dumped: bool,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How it went, as far as that decides how the command ends.
    pub status: Status,
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

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl Report {
    /// A report of nothing yet.
    pub fn new(pid: i32, command: String) -> Self {
        Self { schema: SCHEMA.to_owned(), pid, command, ..Self::default() }
    }

    /// Of a session that was interrupted before its target was ever stopped.
    pub fn interrupted() -> Self {
        Self {
            outcome: Outcome::Interrupted,
            error: Some("interrupted before the target was stopped".to_owned()),
            status: Status::Interrupted,
            ..Self::new(0, String::new())
        }
    }

    /// Writes down how the process ended, as wait(2) says.
    pub fn note_exit(&mut self, status: i32) -> ExitReport {
        self.core_dumped = ExitReport::has_dumped(status);
        *self.exit.insert(ExitReport::from_wait(status))
    }

    /// Whether it is one of those.
    pub fn is_untouched_by_wish(&self) -> bool {
        self.outcome == Outcome::Interrupted
    }

    /// The programs, this one and the others, that were to be watched and were not.
    pub fn not_watched(&self) -> impl Iterator<Item = &Self> {
        let others = self.processes.iter();
        std::iter::once(self).chain(others).filter(|report| report.error.is_some())
    }

    /// How `run` went whose program ended so: as the program itself did, but what failed here, or was
    /// not watched, does not pass for success.
    pub fn status_of_run(&self, exit: ExitReport) -> Status {
        match exit.shell_code() {
            0 if self.not_watched().next().is_some() => Status::RunFailed,
            code => Status::from(code),
        }
    }
}
