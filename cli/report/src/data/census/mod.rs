//! What all memory of a process is, at one moment.

mod asked;
mod cold;

pub use asked::{ArenaDetail, ArenasReport, AskedReport, ContentsReport};
pub use cold::{ColdReport, ColdRow, ColdSum};

use heapattach_census::{
    Census, Check, Doubt, Trust, Walk,
    counters::AllocatorKind,
    not_written::NotWritten,
    pins::Pins,
    stats::{Fill, Kinds, SizeRow},
    types::ClassRow,
    waste::Waste,
};
use heapattach_reach::{Amount, Kind};
use heapattach_verdict::reconcile::{Conclusion, Parts};
use serde::{Deserialize, Serialize};

use super::{
    CoreReport, GoHeapReport, HoldersReport, LookMethod, SitesReport, Status, TypedReport,
};

/// The name of its JSON.
pub const CENSUS_SCHEMA: &str = "heapattach/heap/1";

/// Sizes and classes that are kept, the largest first; less of them is told.
const MOST: usize = 20_000;

/// The result of `heap`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CensusReport {
    /// The name of this form.
    pub schema: String,
    /// The process.
    pub pid: i32,
    /// Its command line.
    pub command: String,
    /// How it went: the exit status of the command.
    pub status: Status,
    /// Why there is no result, or not all of it.
    pub error: Option<String>,
    /// How the moment was kept.
    pub moment: MomentReport,
    /// The core that it was kept by.
    pub core: Option<CoreReport>,
    /// What memory mostly is.
    pub verdict: Conclusion,
    /// What all memory is.
    pub memory: Parts,
    /// The allocators that were recognised.
    pub allocators: Vec<AllocatorReport>,
    /// The sizes of most bytes in use.
    pub sizes: Vec<SizeRow>,
    /// Blocks in use whose objects say their class, those of most bytes first.
    pub classes: Vec<ClassRow>,
    /// How much has a type, if that was looked for beyond what objects say.
    pub typed: Option<TypedReport>,
    /// Blocks in use that no pointer leads to, if they were looked for.
    pub unreachable: Option<UnreachableReport>,
    /// Who holds the blocks, if that was looked for.
    pub holders: Option<HoldersReport>,
    /// What of the blocks in use may be waste, if that was looked for.
    pub waste: Option<Waste>,
    /// Which blocks keep memory that is mostly free, if that was looked for.
    #[serde(default)]
    pub pins: Option<Pins>,
    /// Blocks in use whose pages were never written, if that was looked for.
    #[serde(default)]
    pub not_written: Option<NotWritten>,
    /// Blocks in use that were not written for a while, if that was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdReport>,
    /// Blocks that a session recorded, of the moment after one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<SitesReport>,
    /// What is told only if it is asked for.
    #[serde(default, skip_serializing_if = "AskedReport::is_empty")]
    pub asked: AskedReport,
    /// The objects of a Go program.
    pub go: Option<GoHeapReport>,
    /// How many different sizes there are.
    pub different_sizes: u64,
    /// Pages of allocators that are in memory, by how full they are.
    pub pages: Fill,
    /// The mappings of most bytes in memory.
    pub mappings: Vec<MappingReport>,
}

/// How the moment was kept, and what that cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MomentReport {
    /// When, in milliseconds since 1970; not of a core.
    #[serde(default)]
    pub taken_ms: Option<u64>,
    /// For how long the process had been running then.
    #[serde(default)]
    pub up_ms: Option<u64>,
    /// How.
    pub method: Option<LookMethod>,
    /// Why not by a clone.
    pub why: Option<String>,
    /// Microseconds that the process was stopped, in all.
    pub stopped_us: f64,
    /// Microseconds that the walk took.
    pub walk_us: f64,
    /// Threads.
    pub threads: u64,
}

/// Blocks in use that no pointer leads to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UnreachableReport {
    /// Nothing leads to them.
    pub direct: Amount,
    /// Only such blocks lead to them.
    pub indirect: Amount,
    /// Only pointers to the inside of blocks lead to them.
    pub possible: Amount,
    /// By class and size, the largest first.
    pub groups: Vec<UnreachableGroup>,
    /// Why they cannot be told.
    pub error: Option<String>,
}

/// Unreachable blocks of one class and size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnreachableGroup {
    /// Direct or possible, or indirect where different ones lead to them.
    pub kind: Kind,
    /// The class, if they say it.
    pub class: Option<String>,
    /// Usable bytes of each.
    pub size: u64,
    /// These blocks.
    pub own: Amount,
    /// Unreachable blocks that only they lead to.
    pub held: Amount,
    /// How one of them begins, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// An allocator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AllocatorReport {
    /// Its name.
    pub name: String,
    /// Its release, as far as its layout shows.
    pub layout: String,
    /// Whether every block is told as it is.
    pub is_exact: bool,
    /// Why nothing can be said of it.
    pub refused: Option<String>,
    /// What is not certain.
    pub doubts: Vec<DoubtReport>,
    /// What was compared.
    pub checks: Vec<CheckedReport>,
    /// Threads that may be in the middle of a call.
    pub in_flight: u64,
    /// What is worth a line besides.
    pub notes: Vec<String>,
    /// Its arenas.
    pub arenas: Vec<ArenaReport>,
}

impl AllocatorReport {
    /// Which one it is, if its counters are known.
    pub fn kind(&self) -> Option<AllocatorKind> {
        AllocatorKind::named(&self.name)
    }
}

/// What is not certain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DoubtReport {
    /// The name of the arena, if it is one alone.
    pub arena: Option<String>,
    /// What was found.
    pub why: String,
}

/// Two numbers that must agree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckedReport {
    /// What was compared.
    pub what: String,
    /// How often.
    pub times: u64,
    /// How often it did not hold.
    pub failed: u64,
}

/// An arena.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ArenaReport {
    /// Its name.
    pub name: String,
    /// Bytes from the system, by its own count.
    pub system: Option<u64>,
    /// Blocks in use.
    pub used_blocks: u64,
    /// Their usable bytes.
    pub used: u64,
    /// Free blocks in lists.
    pub free_blocks: u64,
    /// Their usable bytes.
    pub free: u64,
    /// Free blocks in caches of threads.
    pub cached_blocks: u64,
    /// Their usable bytes.
    pub cached: u64,
    /// Bytes that were not cut into blocks yet.
    pub top: u64,
    /// The allocator's own bytes.
    pub books: u64,
    /// What of each kind is in memory.
    pub pages: Kinds,
}

/// A mapping.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MappingReport {
    /// The path, or what the kernel calls it.
    pub name: String,
    /// Permissions, as in the memory map.
    pub permissions: String,
    /// Its bytes.
    pub size: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap alone.
    pub swapped: u64,
    /// Bytes in memory that allocators have.
    pub allocators: u64,
}

impl CensusReport {
    /// Of a process that nothing is known of yet.
    pub fn new(pid: i32, command: String) -> Self {
        Self { schema: CENSUS_SCHEMA.to_owned(), pid, command, ..Self::default() }
    }

    /// The same where nothing could be done.
    #[must_use]
    pub fn failed(mut self, status: Status, error: String) -> Self {
        (self.status, self.error) = (status, Some(error));
        self
    }

    /// Adds classes that the objects themselves do not say.
    pub fn add_classes(&mut self, rows: Vec<ClassRow>) {
        self.classes.extend(rows);
        self.classes.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        self.classes.truncate(MOST);
    }

    /// Fills in what was found.
    pub fn fill(&mut self, census: &Census, parts: Parts) {
        self.verdict = Conclusion::of(self.pid, &parts, census);
        self.memory = parts;
        self.sizes = census.sizes.largest(MOST);
        self.different_sizes = census.sizes.len() as u64;
        self.pages = census.fill;
        self.classes = census.classes.iter().take(MOST).cloned().collect();
        for allocator in &census.allocators {
            let name = allocator.name.to_owned();
            self.allocators.push(match &allocator.walk {
                Ok(walk) => AllocatorReport::of(name, walk, &allocator.kinds),
                Err(why) => AllocatorReport {
                    name,
                    refused: Some(why.clone()),
                    ..AllocatorReport::default()
                },
            });
        }
        self.status = match &self.allocators[..] {
            [] => Status::Unsupported,
            all if all.iter().all(|one| one.is_exact) => Status::Done,
            _ => Status::Incomplete,
        };
    }
}

impl AllocatorReport {
    fn of(name: String, walk: &Walk, kinds: &[Kinds]) -> Self {
        let named = |doubt: &Doubt| {
            let arena = doubt.arena.and_then(|arena| walk.arenas.get(usize::try_from(arena).ok()?));
            DoubtReport { arena: arena.map(|arena| arena.name.clone()), why: doubt.why.clone() }
        };
        let doubts = match &walk.trust {
            Trust::Exact => Vec::new(),
            Trust::Inexact(doubts) => doubts.iter().map(named).collect(),
        };
        let arenas = walk.arenas.iter().zip(kinds).map(|(arena, pages)| ArenaReport {
            name: arena.name.clone(),
            system: arena.system,
            used_blocks: arena.bytes.used_blocks,
            used: arena.bytes.used,
            free_blocks: arena.bytes.free_blocks,
            free: arena.bytes.free,
            cached_blocks: arena.bytes.cached_blocks,
            cached: arena.bytes.cached,
            top: arena.bytes.top,
            books: arena.bytes.books,
            pages: *pages,
        });
        Self {
            name,
            layout: walk.layout.clone(),
            is_exact: walk.is_exact(),
            refused: None,
            doubts,
            checks: checked(&walk.checks),
            in_flight: walk.in_flight,
            notes: walk.notes.clone(),
            arenas: arenas.collect(),
        }
    }

    /// Blocks in use, of all arenas.
    pub fn blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.used_blocks).sum()
    }
}

/// Each kind of check once.
fn checked(checks: &[Check]) -> Vec<CheckedReport> {
    let mut all: Vec<CheckedReport> = Vec::new();
    for check in checks {
        let failed = u64::from(!check.holds());
        match all.iter_mut().find(|one| one.what == check.what) {
            Some(one) => (one.times, one.failed) = (one.times + 1, one.failed + failed),
            None => all.push(CheckedReport { what: check.what.to_owned(), times: 1, failed }),
        }
    }
    all
}
