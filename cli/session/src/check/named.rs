//! What was found, with names: addresses become frames, and findings a report.

use std::collections::BTreeMap;

use crate::{check::frame_report::told, watch::intake::Recorder};
use heapattach_ledger::{FrameReport, MAPPED_MODULE, hidden::Hidden};
use heapattach_profile::Flow;
use heapattach_reach::{Amount, Checked, Finding, Kind, RootKind};
use heapattach_report::{CHECK_SCHEMA, CheckReport, FindingReport, Heap, Sums};
use heapattach_symbols::Symbols;
use heapattach_text::printable::printable;

use super::live_heap::LiveHeap;

/// Findings that are told one by one.
const MOST_FINDINGS: usize = 2000;

/// With names; of the kinds that are asked for.
pub fn report(
    checked: &Checked,
    heap: &LiveHeap,
    symbols: &mut Symbols,
    hidden: &Hidden,
    kinds: &[Kind],
) -> CheckReport {
    let found = &checked.findings;
    let wanted: Vec<&Finding> = found.all.iter().filter(|f| kinds.contains(&f.kind)).collect();
    symbols.prepare_returns(
        wanted.iter().take(MOST_FINDINGS).flat_map(|f| heap.stack(f.stack)).copied(),
    );
    let mut modules: BTreeMap<String, Amount> = BTreeMap::new();
    let mut findings = Vec::new();
    for finding in wanted.iter().take(MOST_FINDINGS) {
        let mut frames = calls(heap.stack(finding.stack), symbols);
        let mut cause = hidden.cause(&frames);
        if heap.is_mapping(finding.stack) {
            frames.insert(0, mapping());
            cause += 1;
        }
        let Finding { kind, stack, own, held } = **finding;
        if matches!(kind, Kind::Direct | Kind::Indirect) {
            let module = frames.get(cause).map_or("[unknown]", |frame| &frame.module);
            modules.entry(module.to_owned()).or_default().merge(finding.total());
        }
        let course = Vec::new();
        findings.push(FindingReport { kind, stack, own, held, cause, course, frames });
    }
    let roots = RootKind::ALL.into_iter().zip(found.roots);
    let mut report = CheckReport {
        schema: CHECK_SCHEMA.to_owned(),
        findings,
        more_findings: wanted.len().saturating_sub(MOST_FINDINGS),
        more: wanted
            .iter()
            .skip(MOST_FINDINGS)
            .fold(Amount::default(), |sum, f| sum.and(f.total())),
        heap: heap.heap,
        sums: Sums {
            direct: found.sum(Kind::Direct),
            indirect: found.sum(Kind::Indirect),
            possible: found.sum(Kind::Possible),
            reachable: found.sum(Kind::Reachable),
        },
        roots: roots.filter(|(_, amount)| amount.blocks > 0).collect(),
        modules,
        ..CheckReport::default()
    };
    report.look.words = checked.words;
    if checked.impossible > 0 {
        report.doubts.push(format!("{} blocks overlap others", checked.impossible));
    }
    if checked.beyond_limit > 0 {
        let many = checked.beyond_limit;
        report
            .blind
            .push(format!("{many} pointers found no room; what they lead to counts as reachable"));
    }
    report
}

/// The call that stands for a mapping, as in exports.
fn mapping() -> FrameReport {
    let module = MAPPED_MODULE.to_owned();
    FrameReport { function: Some(module.clone()), module, ..FrameReport::default() }
}

/// The heap as a whole, as it is now, with what the program mapped itself.
pub fn heap(recorder: &mut Recorder) -> Heap {
    let (mapped, most) = recorder.own_mapped();
    let profile = recorder.profile();
    let heap = profile.heap();
    let whole = |number: f64| {
        // Every block was recorded: these are whole numbers, and far below the limit.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = number.max(0.0) as u64;
        whole
    };
    Heap {
        peak: whole(profile.peak().value.max(most)),
        live: whole(heap.bytes(Flow::Live)).saturating_add(mapped),
        mapped,
        allocations: heap.samples(Flow::Allocated),
    }
}

/// The calls at these addresses, with names that can be printed.
pub fn calls(addresses: &[u64], symbols: &mut Symbols) -> Vec<FrameReport> {
    let frames = addresses.iter().flat_map(|&address| symbols.symbolize_return(address));
    frames.map(|frame| clean(told(frame))).collect()
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
