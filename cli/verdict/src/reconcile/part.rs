//! The parts that memory is divided into.

use heapattach_census::stats::Amount;
use serde::{Deserialize, Serialize};

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Blocks in use.
    Live,
    /// Free blocks in lists of arenas.
    Free,
    /// Free blocks in caches of threads.
    Cached,
    /// What allocators have not cut into blocks yet.
    Top,
    /// The allocators' own: heads, padding, tables.
    Books,
    /// Stacks of threads, and their thread-local variables.
    Stacks,
    /// Code of the program and its libraries.
    Code,
    /// Their variables and constants.
    Variables,
    /// Other files.
    Files,
    /// Memory shared with other processes.
    Shared,
    /// What the program mapped for itself, past all known allocators.
    Mapped,
    /// What is none of these.
    Unexplained,
}

impl PartKind {
    /// All of them, in the order that they are told in.
    pub const ALL: [Self; 12] = [
        Self::Live,
        Self::Free,
        Self::Cached,
        Self::Top,
        Self::Books,
        Self::Stacks,
        Self::Code,
        Self::Variables,
        Self::Files,
        Self::Shared,
        Self::Mapped,
        Self::Unexplained,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live blocks",
            Self::Free => "free blocks, kept by arenas",
            Self::Cached => "free blocks, in thread caches",
            Self::Top => "not yet cut into blocks",
            Self::Books => "the allocator's own",
            Self::Stacks => "stacks",
            Self::Code => "code",
            Self::Variables => "variables and constants",
            Self::Files => "other files",
            Self::Shared => "shared memory",
            Self::Mapped => "mapped by the program",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is for.
    pub part: PartKind,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap alone.
    pub swapped: u64,
}

/// All of them. Their sums are the total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// What the kernel counts: the resident set, and what is in swap.
    pub total: Amount,
    /// The parts, in the order that they are told in.
    pub parts: Vec<Part>,
    /// Bytes of parts that are the kernel's one page of zeroes, which it counts for no process.
    pub zero_page: u64,
    /// Page tables, which the kernel does not count as resident.
    pub page_tables: u64,
}

impl Parts {
    /// Adds to a part.
    pub(super) fn add(&mut self, kind: PartKind, amount: Amount) {
        if self.parts.is_empty() {
            let part = |part| Part { part, resident: 0, swapped: 0 };
            self.parts = PartKind::ALL.into_iter().map(part).collect();
        }
        if let Some(part) = self.parts.iter_mut().find(|part| part.part == kind) {
            part.resident = part.resident.saturating_add(amount.resident);
            part.swapped = part.swapped.saturating_add(amount.swapped);
        }
    }

    /// What is left of the total has no explanation.
    pub(super) fn finish(&mut self) {
        let mut sum = Amount::default();
        for part in &self.parts {
            sum.add(Amount { resident: part.resident, swapped: part.swapped });
        }
        let mut total = self.total;
        total.resident = total.resident.saturating_add(self.zero_page);
        self.add(PartKind::Unexplained, total.without(sum));
    }

    /// One of them.
    pub fn of(&self, kind: PartKind) -> Amount {
        let part = self.parts.iter().find(|part| part.part == kind);
        part.map_or_else(Amount::default, |part| Amount {
            resident: part.resident,
            swapped: part.swapped,
        })
    }

    /// The share of the resident set that some parts have, in percent.
    pub fn percent(&self, kinds: &[PartKind]) -> f64 {
        let bytes: u64 = kinds.iter().map(|&kind| self.of(kind).resident).sum();
        #[allow(clippy::cast_precision_loss)]
        let share = bytes as f64 * 100.0 / self.total.resident.max(1) as f64;
        share
    }
}
