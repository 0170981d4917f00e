//! How well stacks could be followed: what they were followed by, and why they end.

use std::collections::BTreeMap;

use heapattach_ledger::EndReason;
use heapattach_text::quantity::{bytes, count};
use serde::{Deserialize, Serialize};

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
    pub ends: BTreeMap<EndReason, u64>,
    /// Stacks that were followed twice.
    pub verified: u64,
    /// Of these the ones that differed.
    pub differed: u64,
    /// Calls of the kernel by which the target copied memory of its own for frames of scripts; what is known to be there is
    /// read without.
    #[serde(default)]
    pub copying_calls: u64,
}

impl StacksReport {
    /// As a person reads it, except for why stacks are cut: that belongs to what was recorded.
    pub fn words(&self) -> Vec<String> {
        if self.distinct == 0 {
            return Vec::new();
        }
        let (distinct, size) = (count(self.distinct), bytes(self.bytes as u64));
        let mut told = vec![format!(
            "{distinct} distinct stacks, followed by tables of {} modules ({size})",
            self.modules
        )];
        if self.left_out > 0 {
            told.push(format!("the tables of {} modules found no room", self.left_out));
        }
        if self.verified > 0 {
            let (verified, differed) = (count(self.verified), count(self.differed));
            told.push(format!(
                "{verified} stacks were followed twice, {differed} of them differed"
            ));
        }
        told
    }
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
        assert_eq!(some.words(), expected);
        assert!(StacksReport::default().words().is_empty());
    }
}
