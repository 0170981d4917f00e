//! What a check found, as data.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use heapattach_ledger::{FrameReport, Mark};
use heapattach_reach::{Amount, Kind, RootKind};
use heapattach_verdict::{growth::Growth, summary::MappedGrowth};

use super::{
    look_method::LookMethod, older::OlderReport, retained::RetainedReport, round::RoundReport,
};

/// Raised whenever a field changes its meaning or goes away; new fields may come.
pub const CHECK_SCHEMA: &str = "heapattach/check/1";

/// When a check is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckMoment {
    /// At the end of the process.
    Exit,
    /// When it began to end.
    ExitStart,
    /// When it asked to become another program.
    Exec,
    /// At the signal.
    Signal,
    /// When the user wanted it.
    #[default]
    Asked,
    /// When its time was over.
    Time,
    /// As one of several, after which the process was gone.
    Round,
}

impl CheckMoment {
    /// For people, after the name of the process.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exit => "at its end",
            Self::ExitStart => "when it began to end",
            Self::Exec => "at its exec of another program",
            Self::Signal => "at the signal",
            Self::Asked => "when requested",
            Self::Time => "when its time was over",
            Self::Round => "for the last time before it ended",
        }
    }
}

impl CheckMoment {
    /// The same of several processes.
    pub fn words_of_several(self) -> &'static str {
        match self {
            Self::Exit => "at their ends",
            Self::ExitStart => "when they began to end",
            Self::Exec => "at their execs of other programs",
            Self::Time => "when their time was over",
            Self::Round => "for the last time before they ended",
            Self::Signal | Self::Asked => self.words(),
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`CHECK_SCHEMA`].
    pub schema: String,
    /// When it was made.
    pub at: CheckMoment,
    /// Whether every block since the start is known; else older ones may hold blocks unseen.
    pub is_complete: bool,
    /// What is leaked, and what may be: those with most bytes of a kind first.
    pub findings: Vec<FindingReport>,
    /// Findings that found no room in the list.
    pub more_findings: usize,
    /// All blocks by kind.
    pub sums: Sums,
    /// What each kind of root holds directly.
    pub roots: BTreeMap<RootKind, Amount>,
    /// What is leaked by the module that caused it.
    pub modules: BTreeMap<String, Amount>,
    /// Of a process that was attached to: blocks from before that. They are in no other sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<OlderReport>,
    /// Who holds what is reachable, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retained: Vec<RetainedReport>,
    /// Every check, the last too, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<RoundReport>,
    /// Moments that the program gave a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Whether the heap grows, if that was asked for and can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// Why it cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_no_growth: Option<String>,
    /// How the memory was looked at.
    pub look: LookReport,
    /// What found no room in the list, of the kinds that are listed.
    #[serde(default)]
    pub more: Amount,
    /// What rules suppressed, and what that alone led to.
    #[serde(default)]
    pub suppressed: Amount,
    /// What was there before the end of the warm-up, and is not judged.
    #[serde(default)]
    pub warm: Amount,
    /// Every rule, and what it suppressed.
    #[serde(default)]
    pub rules: Vec<Quiet>,
    /// The heap as a whole.
    #[serde(default)]
    pub heap: Heap,
    /// What else is to be said.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What is certain of the growth of mapped memory, if it grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_growth: Option<MappedGrowth>,
    /// The exit status that the program itself names for a check that does not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Runtimes of the program that do not free at exit, a sentence each, where that matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<String>,
    /// Checks that the program asked for and that have no result, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmade: Vec<String>,
    /// What makes the result less than certain: then nothing is concluded from it.
    pub doubts: Vec<String>,
    /// Where pointers may be hidden.
    pub blind: Vec<String>,
}

/// A rule, and what it suppressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// As it was written.
    pub rule: String,
    /// Where the rule comes from.
    pub source: String,
    /// What it suppressed.
    pub amount: Amount,
    /// Whether the user wrote it, and can do something about it.
    pub is_users: bool,
}

/// The heap as a whole, since the start or the attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// Bytes in use at once at most; together with mapped pages, at any of the looks at these.
    pub peak: u64,
    /// Bytes in use at the check, mapped pages too.
    pub live: u64,
    /// Of these the bytes of pages that the program mapped itself.
    #[serde(default)]
    pub mapped: u64,
    /// Calls that allocated memory.
    pub allocations: u64,
}

/// Blocks by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Nothing leads to them.
    pub direct: Amount,
    /// Only leaked blocks lead to them.
    pub indirect: Amount,
    /// Only pointers to the inside of blocks lead to them.
    pub possible: Amount,
    /// The program can reach them.
    pub reachable: Amount,
}

/// Blocks of one kind from one place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingReport {
    /// The kind of its own blocks.
    pub kind: Kind,
    /// The number of its stack in the session.
    #[serde(default)]
    pub stack: u32,
    /// These blocks.
    pub own: Amount,
    /// Leaked blocks that only they lead to.
    pub held: Amount,
    /// Which of the frames caused it: those before are allocators.
    pub cause: usize,
    /// What its stack had leaked in each of several checks that had a result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Amount>,
    /// The calls that led to it, the innermost first.
    pub frames: Vec<FrameReport>,
}

/// How memory was looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LookReport {
    /// How memory was kept.
    pub method: LookMethod,
    /// Why not otherwise, where that would have been better.
    pub why: Option<String>,
    /// How long the target was expected to stand still; 0 where it did not matter.
    pub expected_us: f64,
    /// How long it was allowed to; 0 where it did not matter.
    #[serde(default)]
    pub limit_us: f64,
    /// How long it did.
    pub paused_us: f64,
    /// How long it all took.
    pub took_us: f64,
    /// Bytes that were copied while it ran and written meanwhile, so that they were copied again in the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_late: Option<u64>,
    /// Bytes looked through.
    pub bytes: u64,
    /// Words that were taken for pointers, or not.
    pub words: u64,
    /// Pages that could not be read.
    pub unreadable_pages: u64,
}

impl Sums {
    /// Adds those of another process.
    pub fn merge(&mut self, more: &Self) {
        self.direct.merge(more.direct);
        self.indirect.merge(more.indirect);
        self.possible.merge(more.possible);
        self.reachable.merge(more.reachable);
    }
}

/// A duration in microseconds, by one division: a number of so few digits is read as it was written.
pub fn micros(duration: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a hundred days of nanoseconds fit")]
    let nanoseconds = duration.as_nanos() as f64;
    nanoseconds / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_small_letters() {
        let written = |moment: CheckMoment| serde_json::to_string(&moment).unwrap();
        assert_eq!(written(CheckMoment::ExitStart), "\"exit-start\"");
        assert_eq!(written(CheckMoment::Round), "\"round\"");
    }
}
