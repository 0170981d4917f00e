//! How well stacks could be followed: what they were followed by, and why they end.

use heapattach_injector::watch::{Counts, Totals};
use heapattach_process::stack::StackEnd;
use heapattach_report::StacksReport;

use crate::watch::{intake::Recorder, stack_dump};
use heapattach_profile::Flow;

/// Of a session that has ended.
pub fn stacks_report(totals: Totals, recorder: &Recorder, counts: &Counts) -> StacksReport {
    let mut report = StacksReport {
        modules: totals.modules,
        left_out: totals.left_out,
        rows: totals.rows,
        unknown_rows: totals.unknown,
        bytes: totals.bytes,
        made_ms: totals.took.as_secs_f64() * 1e3,
        verified: counts.verified.stacks,
        differed: counts.verified.differed,
        copying_calls: counts.copying_calls,
        ..StacksReport::default()
    };
    for site in recorder.profile().sites_by(Flow::Allocated) {
        let end = recorder.records.stack(site.stack).map_or(StackEnd::Lost, |stack| stack.end);
        let allocations = site.heap.samples(Flow::Allocated);
        report.distinct += u64::from(allocations > 0);
        *report.ends.entry(stack_dump::reason(end)).or_default() += allocations;
    }
    report.ends.retain(|_, number| *number > 0);
    report
}
