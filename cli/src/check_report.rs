//! What a check found, as data.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    check::{Amount, Checked, Finding, Kind, RootKind},
    hidden::Hidden,
    recorder::Recorder,
    retained_report::RetainedReport,
    site_report::FrameReport,
    symbols::{Symbols, printable::printable},
};

/// Raised whenever a field changes its meaning or goes away; new fields may come.
pub const SCHEMA: &str = "heapattach/check/1";

/// Findings that are told one by one.
const MOST_FINDINGS: usize = 1000;

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it was made: `exit`, `exit-start`, `signal`, `asked` or `time`.
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
    /// How the memory was looked at.
    pub look: LookReport,
    /// What makes the result less than certain: then nothing is concluded from it.
    pub doubts: Vec<String>,
    /// Where pointers may be hidden.
    pub blind: Vec<String>,
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
    /// These blocks.
    pub own: Amount,
    /// Lost blocks that only they lead to.
    pub held: Amount,
    /// Which of the frames caused it: those before are allocators.
    pub cause: usize,
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
    /// With names.
    pub fn of(
        checked: &Checked,
        recorder: &Recorder,
        symbols: &mut Symbols,
        hidden: &Hidden,
    ) -> Self {
        let found = &checked.findings;
        let wanted: Vec<&Finding> =
            found.all.iter().filter(|f| f.kind != Kind::Reachable).collect();
        symbols.prepare_returns(
            wanted.iter().take(MOST_FINDINGS).flat_map(|f| frames_of(recorder, f)),
        );
        let mut modules: BTreeMap<String, Amount> = BTreeMap::new();
        let mut findings = Vec::new();
        for finding in wanted.iter().take(MOST_FINDINGS) {
            let frames: Vec<FrameReport> = frames_of(recorder, finding)
                .flat_map(|address| symbols.symbolize_return(address))
                .map(|frame| clean(frame.into()))
                .collect();
            let cause = hidden.cause(&frames);
            let Finding { kind, own, held, .. } = **finding;
            if kind != Kind::Possible {
                let module = frames.get(cause).map_or("[unknown]", |frame| &frame.module);
                modules.entry(module.to_owned()).or_default().merge(finding.total());
            }
            findings.push(FindingReport { kind, own, held, cause, frames });
        }
        let roots = RootKind::ALL.into_iter().zip(found.roots);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            findings,
            more_findings: wanted.len().saturating_sub(MOST_FINDINGS),
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

    /// What is lost for certain.
    pub fn lost(&self) -> Amount {
        let mut lost = self.sums.direct;
        lost.merge(self.sums.indirect);
        lost
    }
}

fn frames_of<'a>(recorder: &'a Recorder, finding: &Finding) -> impl Iterator<Item = u64> + use<'a> {
    let stack = recorder.records.stack(heapattach_injector::event::StackId(finding.stack));
    stack.into_iter().flat_map(|stack| stack.frames.iter().map(|at| at.get()))
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
