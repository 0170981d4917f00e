//! How well stacks could be followed: what they were followed by, and why they end.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use heapattach_injector::{counts::Verified, stacks::StackEnd, unwind::Totals};
use serde::{Deserialize, Serialize};

use crate::{
    profile::Flow,
    quantity::{bytes, count},
    recorder::Recorder,
    stack_list,
};

/// The end of a stack that was followed as far as there is one.
pub const WHOLE: &str = "outermost";

/// How stacks were followed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StacksReport {
    /// Modules with an unwind table.
    pub modules: usize,
    /// Modules whose table found no room in the target.
    pub left_out: usize,
    /// Rows of the tables.
    pub rows: usize,
    /// Rows that cannot be followed.
    pub unknown_rows: usize,
    /// Bytes of the target that the tables take.
    pub bytes: usize,
    /// How long making them took; the target ran meanwhile.
    pub made_ms: f64,
    /// Distinct stacks of allocations.
    pub distinct: u64,
    /// Allocations recorded, by why their stack ends; `outermost` is a whole stack.
    pub ends: BTreeMap<String, u64>,
    /// Stacks that were followed twice, and of those the ones that differed.
    pub verified: u64,
    /// See above.
    pub differed: u64,
}

/// Of a session that has ended.
pub fn stacks_report(totals: Totals, recorder: &Recorder, verified: Verified) -> StacksReport {
    let mut report = StacksReport {
        modules: totals.modules,
        left_out: totals.left_out,
        rows: totals.rows,
        unknown_rows: totals.unknown,
        bytes: totals.bytes,
        made_ms: totals.took.as_secs_f64() * 1e3,
        verified: verified.stacks,
        differed: verified.differed,
        ..StacksReport::default()
    };
    for site in recorder.profile().sites_by(Flow::Allocated) {
        let end = recorder.records.stack(site.stack).map_or(StackEnd::Lost, |stack| stack.end);
        let allocations = site.heap.samples(Flow::Allocated);
        report.distinct += u64::from(allocations > 0);
        *report.ends.entry(stack_list::name(end).to_owned()).or_default() += allocations;
    }
    report.ends.retain(|_, number| *number > 0);
    report
}

/// Writes it as a person reads it.
pub fn write_stacks(out: &mut String, stacks: &StacksReport) -> fmt::Result {
    let all: u64 = stacks.ends.values().sum();
    let whole = stacks.ends.get(WHOLE).copied().unwrap_or(0);
    if all == 0 {
        return Ok(());
    }
    write!(out, "stacks: {} distinct ones", count(stacks.distinct))?;
    let table = "by tables of";
    writeln!(out, ", {table} {} modules ({})", stacks.modules, bytes(stacks.bytes as u64))?;
    let cut = all.saturating_sub(whole);
    if cut > 0 {
        #[allow(clippy::cast_precision_loss)]
        let percent = 100.0 * cut as f64 / all as f64;
        let reasons = stacks.ends.iter().filter(|(end, _)| *end != WHOLE);
        let reasons: Vec<_> =
            reasons.map(|(end, number)| format!("{} {}", count(*number), reason(end))).collect();
        writeln!(out, "  {percent:.2} % of allocations have a cut stack: {}", reasons.join("; "))?;
    }
    if stacks.left_out > 0 {
        writeln!(out, "  the tables of {} modules found no room", stacks.left_out)?;
    }
    if stacks.verified > 0 {
        let (verified, differed) = (count(stacks.verified), count(stacks.differed));
        writeln!(out, "  {verified} stacks were followed twice, {differed} of them differed")?;
    }
    Ok(())
}

/// What a stack that ends for such a reason has at its end.
pub fn reason(end: &str) -> &'static str {
    match end {
        "depth" => "deeper than --max-depth",
        "off-stack" => "on a stack that nobody knows (a coroutine's, a signal handler's)",
        "no-table" => "in code without unwind information",
        "no-rule" => "in code whose unwind information cannot be followed",
        "no-room" => "without room for another stack",
        _ => "where the next frame makes no sense",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_stacks_are_told_with_their_reasons() {
        let ends = [("outermost", 96), ("depth", 3), ("off-stack", 1)];
        let ends = ends.map(|(end, number)| (end.to_owned(), number)).into();
        let stacks = StacksReport { ends, distinct: 7, modules: 3, ..StacksReport::default() };
        let mut out = String::new();
        write_stacks(&mut out, &stacks).unwrap();
        assert!(out.contains("4.00 % of allocations"), "{out}");
        assert!(out.contains("3 deeper than --max-depth; 1 on a stack that nobody knows"), "{out}");
    }
}
