//! What each call stack asked the kernel for: pages by mmap and mremap, a longer heap by brk, pages that may be
//! freed by madvise, and, where everything is recorded, what it unmaps. Calls and bytes of them, not what is
//! left: that is what mappings are for.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::block::RowId;

/// Calls, and the bytes they asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// Of so many bytes together.
    pub bytes: u64,
}

/// What was asked for, by what it does to the memory that the kernel keeps for the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelCalls {
    /// Pages mapped, by mmap and mremap.
    pub mapped: Calls,
    /// Pages unmapped, by munmap and mremap; known only where everything is recorded.
    pub unmapped: Calls,
    /// The heap of brk made longer.
    pub grown: Calls,
    /// And shorter.
    pub shrunk: Calls,
    /// Pages told to be free, by madvise.
    pub discarded: Calls,
}

/// Calls that may still turn out to have failed, at most: as many as threads may be in one.
const OPEN: usize = 4096;
const PAGE: u64 = 4096;

/// The sums, by row.
#[derive(Debug, Default)]
pub struct Kernel {
    rows: HashMap<RowId, KernelCalls>,
    /// The last that were to unmap something, by their stamps, ascending.
    open: VecDeque<(u64, RowId, u64)>,
    /// Where the heap of brk ends, if that is known.
    end: Option<u64>,
}

impl Calls {
    fn add(&mut self, bytes: u64) {
        self.calls = self.calls.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds all of others.
    pub fn merge(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl KernelCalls {
    /// Adds all of others.
    pub fn merge(&mut self, other: &Self) {
        self.mapped.merge(&other.mapped);
        self.unmapped.merge(&other.unmapped);
        self.grown.merge(&other.grown);
        self.shrunk.merge(&other.shrunk);
        self.discarded.merge(&other.discarded);
    }

    /// Bytes that the kernel was asked to give.
    pub fn asked(&self) -> u64 {
        self.mapped.bytes.saturating_add(self.grown.bytes)
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        let Self { mapped, unmapped, grown, shrunk, discarded } = self;
        let all = [mapped, unmapped, grown, shrunk, discarded];
        all.iter().fold(0, |sum, calls| sum.saturating_add(calls.calls))
    }
}

impl Kernel {
    /// Where the heap of brk ends when the session begins.
    pub fn begin_at(&mut self, end: Option<u64>) {
        self.end = end;
    }

    /// Pages were mapped.
    pub fn mapped(&mut self, row: RowId, bytes: u64) {
        self.rows.entry(row).or_default().mapped.add(bytes);
    }

    /// Pages are about to be unmapped, by the call with this stamp; answers as [`Self::discarded`].
    pub fn unmapped(&mut self, row: RowId, stamp: u64, bytes: u64) -> bool {
        let bytes = bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes);
        let is_new = !self.rows.contains_key(&row);
        self.rows.entry(row).or_default().unmapped.add(bytes);
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back((stamp, row, bytes));
        is_new
    }

    /// That call failed.
    pub fn remained(&mut self, stamp: u64) {
        let at = self.open.binary_search_by_key(&stamp, |(stamp, ..)| *stamp);
        let Some((_, row, bytes)) = at.ok().and_then(|at| self.open.remove(at)) else { return };
        if let Some(KernelCalls { unmapped, .. }) = self.rows.get_mut(&row) {
            unmapped.calls = unmapped.calls.saturating_sub(1);
            unmapped.bytes = unmapped.bytes.saturating_sub(bytes);
        }
    }

    /// Pages may be freed. Whether the row is new here: a recording knows rows by what changes in them.
    pub fn discarded(&mut self, row: RowId, bytes: u64) -> bool {
        let is_new = !self.rows.contains_key(&row);
        self.rows.entry(row).or_default().discarded.add(bytes);
        is_new
    }

    /// The heap of brk ends here; answers as [`Self::discarded`]. sbrk asks brk: what is told of a second time
    /// moves nothing, and is no call.
    pub fn ends_at(&mut self, row: RowId, end: u64) -> bool {
        let before = self.end.replace(end).unwrap_or(end);
        if end == before {
            return false;
        }
        let is_new = !self.rows.contains_key(&row);
        let calls = self.rows.entry(row).or_default();
        let which = if end > before { &mut calls.grown } else { &mut calls.shrunk };
        which.add(end.abs_diff(before));
        is_new
    }

    /// Those rows that asked for most, by their numbers; at most so many.
    pub fn most(&self, rows: usize) -> Vec<(u32, KernelCalls)> {
        let mut all: Vec<_> = self.rows.iter().map(|(row, calls)| (row.0, *calls)).collect();
        all.sort_by_key(|(row, of)| (std::cmp::Reverse((of.asked(), of.calls())), *row));
        all.truncate(rows);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_that_moves_its_end_twice_to_the_same_place_was_asked_once() {
        let mut kernel = Kernel::default();
        kernel.begin_at(Some(0x1000));
        for (row, end) in [(1, 0x5000), (1, 0x5000), (2, 0x3000), (2, 0x3000)] {
            kernel.ends_at(RowId(row), end);
        }
        let all = kernel.most(10);
        assert_eq!((all[0].0, all[0].1.grown), (1, Calls { calls: 1, bytes: 0x4000 }));
        assert_eq!((all[1].0, all[1].1.shrunk), (2, Calls { calls: 1, bytes: 0x2000 }));
    }

    #[test]
    fn what_was_not_unmapped_in_the_end_does_not_count() {
        let mut kernel = Kernel::default();
        for (stamp, bytes) in [(3, 1), (5, 8192), (9, 1 << 40)] {
            kernel.unmapped(RowId(1), stamp, bytes);
        }
        [9, 9, 4].into_iter().for_each(|stamp| kernel.remained(stamp));
        assert_eq!(kernel.most(1)[0].1.unmapped, Calls { calls: 2, bytes: 3 * 4096 });
    }

    #[test]
    fn where_the_end_was_is_learned_if_nobody_knew() {
        let mut kernel = Kernel::default();
        kernel.ends_at(RowId(1), 0x5000);
        kernel.ends_at(RowId(1), u64::MAX);
        assert_eq!(kernel.most(1)[0].1.grown.calls, 1);
    }

    #[test]
    fn those_that_ask_for_most_are_told() {
        let mut kernel = Kernel::default();
        kernel.mapped(RowId(3), 8192);
        kernel.mapped(RowId(4), 4096);
        kernel.discarded(RowId(5), 1 << 40);
        let told: Vec<u32> = kernel.most(2).iter().map(|(row, _)| *row).collect();
        assert_eq!(told, [3, 4], "what is freed was not asked for");
    }
}
