//! The functions that are part of the allocator: what the hooked ones reach by direct branches.
//!
//! Reachability alone would take in half of libc by way of malloc's error messages. So the way
//! ends at functions other modules can name, and at functions far from every hooked one: an
//! allocator is one object file, or one directory of them. The exception are the cold parts that
//! compilers split off and put far away; they are recognised by how they are entered.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use crate::{
    Family,
    arch::{
        disassembly::{Branch, Disassembly, Kind},
        stub::Stubs,
    },
    draft::{Drafts, Part},
    function_ranges::FunctionRanges,
};

/// How far from a hooked function the allocator reaches: glibc's is 40 KiB long.
const NEAR: u64 = 64 << 10;
/// No allocator has as many functions.
const FUNCTIONS_MAX: usize = 4096;

/// The allocator's functions and how they leave.
#[derive(Default)]
pub(super) struct Closure {
    starts: BTreeSet<u64>,
    /// Those of their branches that lead to hooked functions.
    pub branches: Vec<Branch>,
}

impl Closure {
    /// Follows the branches of the heap functions, and lists those of all hooked functions.
    pub(super) fn of(
        drafts: &Drafts,
        functions: &FunctionRanges<'_, '_>,
        code: &mut Disassembly<'_, '_>,
        stubs: &Stubs<'_, '_>,
    ) -> Self {
        let heap = drafts.entries(Some(Family::Heap));
        let mut closure = Self::default();
        let mut queue: Vec<Range<u64>> = Vec::new();
        let mut seen = HashSet::new();
        for entry in drafts.entries(None) {
            queue.extend(functions.containing(entry).filter(|f| closure.starts.insert(f.start)));
        }
        while let Some(function) = queue.pop() {
            let Some(branches) = code.branches(&function) else { continue };
            for branch in branches.iter() {
                let leads_out = !function.contains(&branch.target);
                if matches!(drafts.at(branch.target), Some((_, Part::Entry))) {
                    // What an allocator asks of the kernel is to be told, too.
                    if drafts.family(branch.target) != Some(Family::Kernel) {
                        closure.branches.push(*branch);
                    }
                } else if leads_out && stubs.is_stub(branch.target) {
                    closure.branches.extend(stubs.hooked(branch.target).map(|_| *branch));
                    continue;
                }
                if !leads_out || !seen.insert((branch.target, branch.kind)) {
                    continue;
                }
                let Some(next) = functions.containing(branch.target) else { continue };
                if closure.starts.len() < FUNCTIONS_MAX
                    && belongs(branch, &next, &heap)
                    && !functions.exports_any_of(&next)
                    && closure.starts.insert(next.start)
                {
                    queue.push(next);
                }
            }
        }
        closure
    }

    pub(super) fn contains(&self, function: &Range<u64>) -> bool {
        self.starts.contains(&function.start)
    }
}

fn belongs(branch: &Branch, next: &Range<u64>, heap: &[u64]) -> bool {
    // A call enters a function, and a jump to its first byte is a tail call; a conditional jump, or
    // one into the middle, leads to another part of the same function.
    let cold = match branch.kind {
        Kind::Call => false,
        Kind::Conditional => true,
        Kind::Jump => branch.target != next.start,
    };
    cold || heap.iter().any(|&entry| entry.abs_diff(next.start) <= NEAR)
}
