//! What of a census is shown, and printed as JSON: the largest rows. What a moment file keeps is more.

use std::{cmp::Reverse, collections::HashMap};

use super::CensusReport;

/// Rows of each kind, the largest.
const SIZES: usize = 50;
const CLASSES: usize = 200;
const MAPPINGS: usize = 50;
const GROUPS: usize = 100;
const WASTE: usize = 100;
const NOT_WRITTEN: usize = 100;
/// Holders of less than this part of all are not told.
const HOLDERS: usize = 2000;
const LEAST: u64 = 2000;

impl CensusReport {
    /// The largest rows of each kind; `go_holders` of what holds the objects of a Go program.
    #[must_use]
    pub fn told(mut self, go_holders: usize) -> Self {
        // Their names are in the recording, with which they are told.
        self.sites = None;
        self.sizes.truncate(SIZES);
        self.classes.truncate(CLASSES);
        self.mappings.truncate(MAPPINGS);
        if let Some(found) = &mut self.waste {
            found.rows.truncate(WASTE);
        }
        if let Some(found) = &mut self.not_written {
            found.rows.truncate(NOT_WRITTEN);
        }
        if let Some(found) = &mut self.cold {
            found.rows.truncate(NOT_WRITTEN);
        }
        if let Some(found) = &mut self.unreachable {
            found.groups.truncate(GROUPS);
        }
        if let Some(found) = &mut self.holders {
            let roots = found.holders.iter().filter(|row| row.before.is_none());
            let all = roots.fold(0_u64, |sum, row| sum.saturating_add(row.retained.bytes));
            let weights = found.holders.iter().map(|row| row.retained.bytes);
            let is_large = |weight: u64| weight >= all / LEAST;
            let chosen = Chosen::of(weights, HOLDERS, is_large);
            chosen.keep(&mut found.holders);
            found.holders.iter_mut().for_each(|row| row.before = chosen.number(row.before));
            for suspect in &mut found.suspects {
                suspect.holder = chosen.number(Some(suspect.holder)).unwrap_or(u64::MAX);
                suspect.accumulates = chosen.number(Some(suspect.accumulates)).unwrap_or(u64::MAX);
            }
        }
        if let Some(go) = &mut self.go {
            let weights = go.holders.iter().map(|row| row.all.bytes);
            let chosen = Chosen::of(weights, go_holders, |_| true);
            chosen.keep(&mut go.holders);
            go.holders.iter_mut().for_each(|row| row.before = chosen.number(row.before));
        }
        self
    }
}

/// Rows of a tree that are kept: each comes after the one that it goes on from, which is no smaller.
struct Chosen(HashMap<u64, u64>);

impl Chosen {
    fn of(weights: impl Iterator<Item = u64>, most: usize, is_told: impl Fn(u64) -> bool) -> Self {
        let told = (0..).zip(weights).filter(|(_, weight)| is_told(*weight));
        let mut order: Vec<(u64, u64)> = told.collect();
        order.sort_by_key(|&(index, weight)| (Reverse(weight), index));
        order.truncate(most);
        order.sort_unstable();
        Self(order.into_iter().map(|(index, _)| index).zip(0..).collect())
    }

    fn keep<T>(&self, rows: &mut Vec<T>) {
        let mut index = 0;
        rows.retain(|_| {
            index += 1;
            self.0.contains_key(&(index - 1))
        });
    }

    fn number(&self, index: Option<u64>) -> Option<u64> {
        self.0.get(&index?).copied()
    }
}

#[cfg(test)]
mod tests {
    use heapattach_reach::Amount;

    use super::*;
    use crate::{HolderRow, HoldersReport, SuspectReport};

    #[test]
    fn small_holders_are_left_out_and_the_others_keep_what_they_go_on_from() {
        let row = |before, bytes| HolderRow {
            before,
            retained: Amount { bytes, blocks: 1 },
            ..HolderRow::default()
        };
        let holders = vec![row(None, 10), row(Some(0), 9), row(None, 90_000), row(Some(2), 80_000)];
        let suspects =
            vec![SuspectReport { holder: 2, accumulates: 3, ..SuspectReport::default() }];
        let mut report = CensusReport::new(1, String::new());
        report.holders = Some(HoldersReport { holders, suspects, ..HoldersReport::default() });
        let told = report.told(0).holders.unwrap();
        let befores: Vec<_> = told.holders.iter().map(|row| row.before).collect();
        assert_eq!(befores, [None, Some(0)]);
        assert_eq!((told.suspects[0].holder, told.suspects[0].accumulates), (0, 1));
    }
}
