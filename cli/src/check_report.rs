//! What a check found, as data.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    census::Census,
    check::{Amount, Checked, Finding, Kind, RootKind},
    growth::Growth,
    hidden::Hidden,
    profile::Flow,
    recorder::Recorder,
    recording::Mark,
    retained::RetainedReport,
    round_report::RoundReport,
    site_report::FrameReport,
    symbols::{Symbols, printable::printable},
};

/// Raised whenever a field changes its meaning or goes away; new fields may come.
pub const SCHEMA: &str = "heapattach/check/1";

/// Findings that are told one by one.
const MOST_FINDINGS: usize = 2000;

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it was made: `exit`, `exit-start`, `signal`, `asked`, `time`, or as one of several after
    /// which the process was gone: `round`.
    pub at: String,
    /// Whether every block since the start is known; else older ones hold whatever they hold.
    pub is_complete: bool,
    /// What is lost, and what may be: those with most bytes of a kind first.
    pub findings: Vec<FindingReport>,
    /// Findings that found no room in the list.
    pub more_findings: usize,
    /// All blocks by kind.
    pub sums: Sums,
    /// What each kind of root holds directly.
    pub roots: BTreeMap<RootKind, Amount>,
    /// What is lost by the module that caused it.
    pub modules: BTreeMap<String, Amount>,
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
    /// What rules kept quiet, and what that alone led to.
    #[serde(default)]
    pub suppressed: Amount,
    /// What was there before the end of the warm-up, and is not judged.
    #[serde(default)]
    pub warm: Amount,
    /// Every rule, and what it kept quiet.
    #[serde(default)]
    pub rules: Vec<Quiet>,
    /// The heap as a whole.
    #[serde(default)]
    pub heap: Heap,
    /// What else is to be said.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What makes the result less than certain: then nothing is concluded from it.
    pub doubts: Vec<String>,
    /// Where pointers may be hidden.
    pub blind: Vec<String>,
}

/// A rule, and what it kept quiet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// As it was written.
    pub rule: String,
    /// By whom.
    pub source: String,
    /// What it kept quiet.
    pub amount: Amount,
    /// Whether the user wrote it, and can do something about it.
    pub is_users: bool,
}

/// The heap as a whole, since the start or the attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// Bytes held at once at most.
    pub peak: u64,
    /// Bytes held at the check.
    pub live: u64,
    /// Calls that asked for memory.
    pub allocations: u64,
}

/// Blocks by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Nothing leads to them.
    pub direct: Amount,
    /// Only lost blocks lead to them.
    pub indirect: Amount,
    /// Only pointers to the inside of blocks lead to them.
    pub possible: Amount,
    /// The program can get at them.
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
    /// Lost blocks that only they lead to.
    pub held: Amount,
    /// Which of the frames caused it: those before are allocators.
    pub cause: usize,
    /// What its stack had lost in each of several checks that had a result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Amount>,
    /// The calls that led to it, the innermost first.
    pub frames: Vec<FrameReport>,
}

/// How memory was looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LookReport {
    /// `stop`, `copy` or `fork`.
    pub method: String,
    /// Why not otherwise, where that would have been better.
    pub why: Option<String>,
    /// How long the target was expected to stand still; 0 where it did not matter.
    pub expected_us: f64,
    /// How long it did.
    pub paused_us: f64,
    /// How long it all took.
    pub took_us: f64,
    /// Bytes looked through.
    pub bytes: u64,
    /// Words that were taken for pointers, or not.
    pub words: u64,
    /// Pages that could not be read.
    pub unreadable_pages: u64,
}

impl CheckReport {
    /// With names; of the kinds that are asked for.
    pub fn of(
        checked: &Checked,
        census: &Census,
        symbols: &mut Symbols,
        hidden: &Hidden,
        kinds: &[Kind],
    ) -> Self {
        let found = &checked.findings;
        let wanted: Vec<&Finding> = found.all.iter().filter(|f| kinds.contains(&f.kind)).collect();
        symbols.prepare_returns(
            wanted.iter().take(MOST_FINDINGS).flat_map(|f| census.stack(f.stack)).copied(),
        );
        let mut modules: BTreeMap<String, Amount> = BTreeMap::new();
        let mut findings = Vec::new();
        for finding in wanted.iter().take(MOST_FINDINGS) {
            let frames = calls(census.stack(finding.stack), symbols);
            let cause = hidden.cause(&frames);
            let Finding { kind, stack, own, held } = **finding;
            if matches!(kind, Kind::Direct | Kind::Indirect) {
                let module = frames.get(cause).map_or("[unknown]", |frame| &frame.module);
                modules.entry(module.to_owned()).or_default().merge(finding.total());
            }
            let course = Vec::new();
            findings.push(FindingReport { kind, stack, own, held, cause, course, frames });
        }
        let roots = RootKind::ALL.into_iter().zip(found.roots);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            findings,
            more_findings: wanted.len().saturating_sub(MOST_FINDINGS),
            more: wanted
                .iter()
                .skip(MOST_FINDINGS)
                .fold(Amount::default(), |sum, f| sum.and(f.total())),
            heap: census.heap,
            sums: Sums {
                direct: found.sum(Kind::Direct),
                indirect: found.sum(Kind::Indirect),
                possible: found.sum(Kind::Possible),
                reachable: found.sum(Kind::Reachable),
            },
            roots: roots.filter(|(_, amount)| amount.blocks > 0).collect(),
            modules,
            ..Self::default()
        };
        report.look.words = checked.words;
        if checked.impossible > 0 {
            report.doubts.push(format!("{} blocks overlap others", checked.impossible));
        }
        if checked.beyond_limit > 0 {
            let many = checked.beyond_limit;
            report.blind.push(format!("{many} pointers found no room; what they lead to is held"));
        }
        report
    }
}

impl Heap {
    /// As it is now.
    pub fn of(recorder: &Recorder) -> Self {
        let profile = recorder.profile();
        let heap = profile.heap();
        let whole = |number: f64| {
            // Every block was recorded: these are whole numbers, and far below the limit.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let whole = number.max(0.0) as u64;
            whole
        };
        Self {
            peak: whole(profile.peak().value),
            live: whole(heap.bytes(Flow::Live)),
            allocations: heap.samples(Flow::Allocated),
        }
    }
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

/// The calls at these addresses, with names that can be printed.
pub fn calls(addresses: &[u64], symbols: &mut Symbols) -> Vec<FrameReport> {
    let frames = addresses.iter().flat_map(|&address| symbols.symbolize_return(address));
    frames.map(|frame| clean(frame.into())).collect()
}

/// Names come out of the target's files.
fn clean(frame: FrameReport) -> FrameReport {
    FrameReport {
        module: printable(&frame.module),
        function: frame.function.as_deref().map(printable),
        file: frame.file.as_deref().map(printable),
        ..frame
    }
}

/// In microseconds.
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
