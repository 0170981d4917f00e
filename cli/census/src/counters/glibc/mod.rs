//! glibc's malloc, 2.26 to 2.43: what `malloc_info` prints, by arena, and the parameters of `mallopt`.
//!
//! ```text
//! variables of a module -> main_arena and mp_, as the walker finds them -> totals (arena), free chunks (bins)
//! ```
//!
//! Totals are words. What is free is a list that threads change meanwhile: it is followed again until it leads
//! back to where it began, and where it never does in a few attempts it is named as unknown.

mod bins;
mod parameters;

use crate::{
    Moment,
    walkers::glibc::{Found, find_in_some},
};

use super::AllocatorKind;
use super::statistics::{Arena, Numbers, Statistics};
use bins::Free;

/// No program has more arenas.
const MOST_ARENAS: usize = 4096;
/// From the bins on: the next arena, threads, bytes from the system, and the most of these.
const NEXT: u64 = 0x800;
const COUNTS: u64 = 0x810;
/// Before them: the top.
const TOP: u64 = 0x10;

/// Where one is.
#[derive(Debug)]
pub struct Place {
    found: Found,
}

impl Place {
    /// The one that has most, of modules that may have one.
    pub fn find(moment: &Moment<'_>, is_open: impl Fn(usize) -> bool) -> Option<Self> {
        Some(Self { found: find_in_some(moment, is_open).pop()? })
    }

    /// Whether it ever had memory of the system.
    pub fn is_used(&self, moment: &Moment<'_>) -> bool {
        let counts = self.found.bins.checked_add(COUNTS).and_then(|at| moment.words(at, 2));
        counts.is_some_and(|counts| counts[1] > 0)
    }

    /// What it counts now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let mut all = Statistics {
            allocator: AllocatorKind::Glibc,
            module: self.found.path.clone(),
            ..Statistics::default()
        };
        let (mut is_mangled, mut is_whole) = (None, true);
        let main = self.found.bins;
        let mut bins = main;
        loop {
            let number = u32::try_from(all.arenas.len()).unwrap_or(u32::MAX);
            let mut arena = Arena { index: number, ..Arena::default() };
            let counts = moment.words(bins.checked_add(COUNTS)?, 3)?;
            arena.numbers.extend([
                ("nthreads", counts[0]),
                ("system.current", counts[1]),
                ("system.max", counts[2]),
                ("aspace.total", counts[1]),
            ]);
            let top = top(moment, bins);
            arena.numbers.insert("top", top);
            match Free::of(moment, bins, self.found.before) {
                Some(free) => {
                    is_mangled = is_mangled.or(free.is_mangled);
                    arena.numbers.extend([
                        ("fast.count", free.fast[0]),
                        ("fast.size", free.fast[1]),
                        // The top counts as a free chunk, as it does for malloc_info.
                        ("rest.count", free.rest[0] + 1),
                        ("rest.size", free.rest[1].saturating_add(top)),
                    ]);
                    arena.bins = free.classes;
                }
                None => {
                    is_whole = false;
                    let why =
                        format!("free chunks of arena {number}: its lists change all the time");
                    all.unknown.push(why);
                }
            }
            all.arenas.push(arena);
            // The arenas are a ring of their starts.
            let next = moment.words(bins.checked_add(NEXT)?, 1)?[0];
            bins = next.checked_add(self.found.before)?;
            if bins == main {
                break;
            }
            if all.arenas.len() >= MOST_ARENAS || next == 0 || !next.is_multiple_of(8) {
                all.unknown.push("further arenas: their ring does not close".to_owned());
                break;
            }
        }
        all.version = release(self.found.before, is_mangled).to_owned();
        all.stats = sums(&all, is_whole);
        match parameters::read(moment, &self.found) {
            Some(parameters) => {
                all.opt = parameters.settings;
                all.stats.extend(parameters.numbers);
            }
            None => all.unknown.push("parameters, and mapped chunks: not found".to_owned()),
        }
        Some(all)
    }
}

/// Bytes that were not cut yet.
fn top(moment: &Moment<'_>, bins: u64) -> u64 {
    let top = bins.checked_sub(TOP).and_then(|at| Some(moment.words(at, 1)?[0]));
    let size = top.filter(|top| *top != bins - TOP);
    let size = size.and_then(|top| Some(moment.words(top.checked_add(8)?, 1)?[0]));
    size.unwrap_or(0) & !7
}

fn sums(all: &Statistics, is_whole: bool) -> Numbers {
    let names = ["system.current", "system.max", "aspace.total", "nthreads", "top"];
    let mut sums: Numbers = names.iter().map(|name| (*name, all.sum(name))).collect();
    sums.insert("narenas", all.arenas.len() as u64);
    if is_whole {
        let names = ["fast.count", "fast.size", "rest.count", "rest.size"];
        sums.extend(names.iter().map(|name| (*name, all.sum(name))));
        let free = all.sum("rest.size").saturating_sub(all.sum("top"));
        sums.insert("free", free.saturating_add(all.sum("fast.size")));
    }
    sums
}

/// What the release is known by: how far an arena begins before its bins, and whether links of short lists are
/// mangled, if there was any.
fn release(before: u64, is_mangled: Option<bool>) -> &'static str {
    match (before, is_mangled) {
        (0x68, _) => "before 2.27",
        (0x18, _) => "2.43 or later",
        (_, Some(true)) => "2.32 to 2.42",
        (_, Some(false)) => "2.27 to 2.31",
        (_, None) => "2.27 to 2.42",
    }
}
