//! What an allocator would return to the system, and for how long it would hold its locks.

use std::time::Duration;

use heapattach_census::counters::{AllocatorKind, Statistics};
use heapattach_injector::target::Target;
use heapattach_report::CensusReport;

use crate::{
    check::options::Snapshot,
    heap::{self, HeapFilter, HeapOptions, WithHolders},
};

const PAGE: u64 = 4096;
/// What it takes to return a page (1.2 to 1.7 microseconds were measured) and to look at a free block.
const OF_PAGE: Duration = Duration::from_nanos(2000);
const OF_BLOCK: Duration = Duration::from_nanos(100);

/// The expectation.
#[derive(Debug)]
pub struct Foretold {
    /// By how much the resident set falls, if that is known.
    pub bytes: Option<u64>,
    /// How long threads may wait for a lock.
    pub held: Duration,
    /// How long the process was stopped to find out.
    pub stopped: Duration,
}

impl Foretold {
    /// Of that allocator.
    ///
    /// # Errors
    /// Why it cannot be told.
    pub fn of(
        target: &Target,
        allocator: AllocatorKind,
        counted: &[Statistics],
        most: Duration,
    ) -> Result<Self, String> {
        let own = counted.iter().find(|own| own.allocator == allocator);
        let total = |name: &str| own.map_or(0, |own| own.total(name));
        let bytes = match allocator {
            AllocatorKind::Glibc => return of_glibc(target, most),
            AllocatorKind::Jemalloc => Some(total("dirty").saturating_add(total("muzzy"))),
            AllocatorKind::Tcmalloc => Some(total("tcmalloc.pageheap_free_bytes")),
            // What a heap of a thread has free is known by no count.
            AllocatorKind::Mimalloc | AllocatorKind::Mallocng | AllocatorKind::Go => None,
        };
        let free = bytes.unwrap_or_else(|| super::facts::resident(&target.process));
        Ok(Self { bytes, held: time(free, 0), stopped: Duration::ZERO })
    }
}

/// Whole pages that are free: known block by block.
fn of_glibc(target: &Target, most: Duration) -> Result<Foretold, String> {
    let options = HeapOptions {
        snapshot: Snapshot::Auto,
        max_pause: most,
        unreachable: false,
        holders: WithHolders::No,
        filter: HeapFilter::default(),
        who_holds: None,
        go_holders: 0,
        for_paths: None,
        waste: None,
        arena: None,
        not_written: false,
        cold: None,
        show_contents: None,
        pins: false,
        recorded: None,
        typed: false,
    };
    let report = heap::take(target, &options);
    if let Some(error) = &report.error {
        return Err(format!("what it would win cannot be told: {error}"));
    }
    let stopped = Duration::from_secs_f64(report.moment.stopped_us / 1e6);
    let (bytes, held) = told(&report);
    Ok(Foretold { bytes: Some(bytes), held, stopped })
}

/// Pages without a block in use, but for what glibc never returns: caches of threads, and the ends of arenas but the
/// first. The longest lock is that of one arena.
fn told(report: &CensusReport) -> (u64, Duration) {
    let glibc = report.allocators.iter().filter(|own| own.kind() == Some(AllocatorKind::Glibc));
    let arenas: Vec<_> = glibc.flat_map(|own| &own.arenas).collect();
    let kept = arenas.iter().enumerate().map(|(number, arena)| {
        let end = if number == 0 { 0 } else { arena.pages.top.resident };
        arena.pages.cached.resident.saturating_add(end)
    });
    let kept = kept.fold(0, u64::saturating_add);
    let free = report.pages.none.saturating_mul(PAGE);
    let held = arenas.iter().map(|arena| time(arena.pages.free.resident, arena.free_blocks)).max();
    (free.saturating_sub(kept), held.unwrap_or_default())
}

fn time(bytes: u64, blocks: u64) -> Duration {
    let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    OF_PAGE
        .saturating_mul(number(bytes / PAGE))
        .saturating_add(OF_BLOCK.saturating_mul(number(blocks)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_census::stats::Amount;
    use heapattach_report::{AllocatorReport, ArenaReport};

    #[test]
    fn what_caches_and_the_ends_of_further_arenas_keep_is_not_foretold() {
        let bytes = |resident| Amount { resident, swapped: 0 };
        let mut arenas = [ArenaReport::default(), ArenaReport::default()];
        for arena in &mut arenas {
            arena.pages.top = bytes(40 * PAGE);
            arena.pages.cached = bytes(PAGE);
        }
        arenas[0].pages.free = bytes(1000 * PAGE);
        arenas[1].pages.free = bytes(10 * PAGE);
        let glibc = AllocatorReport {
            name: "glibc".to_owned(),
            arenas: arenas.into(),
            ..AllocatorReport::default()
        };
        let mut report = CensusReport::new(1, String::new());
        report.allocators = vec![glibc];
        report.pages.none = 1042;
        assert_eq!(told(&report), (1000 * PAGE, OF_PAGE * 1000));
        report.pages.none = 3;
        assert_eq!(told(&report).0, 0);
    }
}
