//! How well stacks could be followed: what they were followed by, and why they end.

use std::collections::BTreeMap;

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

/// As a person reads it, but for why stacks are cut: that belongs to what was recorded.
pub fn stacks(stacks: &StacksReport) -> Vec<String> {
    if stacks.distinct == 0 {
        return Vec::new();
    }
    let (distinct, size) = (count(stacks.distinct), bytes(stacks.bytes as u64));
    let mut told = vec![format!(
        "{distinct} distinct stacks, followed by tables of {} modules ({size})",
        stacks.modules
    )];
    if stacks.left_out > 0 {
        told.push(format!("the tables of {} modules found no room", stacks.left_out));
    }
    if stacks.verified > 0 {
        let (verified, differed) = (count(stacks.verified), count(stacks.differed));
        told.push(format!("{verified} stacks were followed twice, {differed} of them differed"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_told_with_what_they_were_followed_by() {
        let some = StacksReport { distinct: 7, modules: 3, verified: 5, ..StacksReport::default() };
        let expected = [
            "7 distinct stacks, followed by tables of 3 modules (0 B)",
            "5 stacks were followed twice, 0 of them differed",
        ];
        assert_eq!(stacks(&some), expected);
        assert!(stacks(&StacksReport::default()).is_empty());
    }
}
