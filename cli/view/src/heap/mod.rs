//! What all memory of a process is, as a person reads it: one screen, or one of its parts.

mod arenas;
mod cold;
mod contents;
mod core_file;
mod difference;
mod go;
mod go_excess;
mod holders;
mod likely_sites;
mod mappings;
mod not_written;
mod pages;
mod pins;
mod sites;
mod sizes;
mod summary;
mod trust;
mod types;
mod unreachable;
mod waste;

use std::time::Duration;

use heapattach_report::{CensusReport, LookMethod};
use heapattach_text::quantity::time;

use crate::page::Page;
use arenas::write_arenas;
use cold::write_cold;
use contents::write_contents;
use core_file::write_core;
pub use difference::tell_difference;
use go::write_go;
use holders::{Extent, write_holders};
use mappings::write_mappings;
use not_written::write_not_written;
use pages::write_pages;
use pins::write_pins;
pub use sites::tell_placed_sites;
use sizes::write_sizes;
use summary::write_summary;
use trust::write_doubts;
use types::write_types;
use unreachable::write_unreachable;
use waste::write_waste;

/// Rows of the first screen.
const FEW: usize = 5;
/// Rows of a view.
const MANY: usize = 30;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeapView {
    /// What all memory is.
    #[default]
    Summary,
    /// Blocks by size.
    Sizes,
    /// What each arena has.
    Arenas,
    /// Mappings.
    Mappings,
    /// How full the pages of allocators are.
    Pages,
    /// Objects by class.
    Types,
    /// Blocks that no pointer leads to.
    Unreachable,
    /// What holds the blocks.
    Holders,
    /// The same, top down.
    Tree,
    /// What of the blocks in use may be waste.
    Waste,
    /// Which blocks keep memory that is mostly free.
    Pins,
    /// Blocks whose pages were never written.
    NotWritten,
    /// Blocks that were not written for a while.
    Cold,
    /// What holds the objects of a Go program.
    Go,
}

impl HeapView {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Summary,
        Self::Sizes,
        Self::Types,
        Self::Unreachable,
        Self::Holders,
        Self::Tree,
        Self::Waste,
        Self::Pins,
        Self::NotWritten,
        Self::Cold,
        Self::Go,
        Self::Arenas,
        Self::Mappings,
        Self::Pages,
    ];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Sizes => "sizes",
            Self::Arenas => "arenas",
            Self::Mappings => "mappings",
            Self::Pages => "pages",
            Self::Types => "types",
            Self::Unreachable => "unreachable",
            Self::Holders => "holders",
            Self::Tree => "tree",
            Self::Waste => "waste",
            Self::Pins => "pins",
            Self::NotWritten => "not-written",
            Self::Cold => "cold",
            Self::Go => "go",
        }
    }

    /// What it shows.
    pub fn about(self) -> &'static str {
        match self {
            Self::Summary => "What all memory is, on one screen",
            Self::Sizes => "Blocks by usable size",
            Self::Arenas => "What each arena has, and what of it is in memory",
            Self::Mappings => "The largest mappings",
            Self::Pages => "How full the pages of the allocators are",
            Self::Types => "C++, Python and Go objects by their class, stripped programs' too",
            Self::Unreachable => "Blocks that no pointer leads to: leaked, also before the look",
            Self::Holders => {
                "What holds most, by what would be freed with it: variables, threads, classes"
            }
            Self::Tree => "The same, all of it top down",
            Self::Waste => "What may be waste: blocks of zeroes, copies, room that is not used",
            Self::Pins => "Which blocks keep pages and slabs in memory that are mostly free",
            Self::NotWritten => "Blocks whose pages were never written: allocated and not used",
            Self::Cold => "Blocks that were not written while pages were watched (--cold TIME)",
            Self::Go => "What holds the objects of a Go program; goroutines that wait for ever",
        }
    }

    /// Why it cannot be shown of a moment that was kept: what was not looked for then is not in it.
    pub fn missing(self, report: &CensusReport) -> Option<&'static str> {
        match self {
            Self::Unreachable if report.unreachable.is_none() => Some(
                "it does not have unreachable blocks: they were not looked for (heap --unreachable -o FILE)",
            ),
            Self::Pins if report.pins.is_none() && report.sites.is_none() => Some(
                "it does not have which blocks keep memory: that was not looked for (heap -o FILE)",
            ),
            Self::NotWritten if report.not_written.is_none() => Some(
                "it does not have pages that were never written: they were not looked for (heap -o FILE)",
            ),
            Self::Cold if report.cold.is_none() => Some(
                "it does not have what was not written for a while: that was not watched (heap --cold TIME -o FILE)",
            ),
            Self::Holders | Self::Tree if report.holders.is_none() && report.go.is_none() => Some(
                "it does not have what holds the blocks: that was not looked for (heap --view holders -o FILE)",
            ),
            _ => None,
        }
    }

    /// Writes it.
    pub fn tell(self, report: &CensusReport, mut page: Page) -> String {
        page.line([format!("process {} ({})", report.pid, report.command).into()]);
        write_moment(&mut page, report);
        page.gap();
        // Paths to objects of a Go program are told by its own graph; so were holders in older moments.
        let of_go = |go: &heapattach_report::GoHeapReport| {
            go.error.is_none() && (go.asked.is_some() || report.holders.is_none())
        };
        let is_go = report.go.as_ref().is_some_and(of_go);
        match self {
            Self::Holders | Self::Tree if is_go => write_go(&mut page, report),
            Self::Summary => write_summary(&mut page, report),
            Self::Sizes => write_sizes(&mut page, report, MANY),
            Self::Arenas => write_arenas(&mut page, report),
            Self::Mappings => write_mappings(&mut page, report),
            Self::Pages => write_pages(&mut page, report),
            Self::Types => write_types(&mut page, report),
            Self::Unreachable => write_unreachable(&mut page, report),
            Self::Holders => write_holders(&mut page, report, Extent::Largest),
            Self::Tree => write_holders(&mut page, report, Extent::Tree),
            Self::Waste => write_waste(&mut page, report),
            Self::Pins => write_pins(&mut page, report),
            Self::NotWritten => write_not_written(&mut page, report),
            Self::Cold => write_cold(&mut page, report),
            Self::Go => write_go(&mut page, report),
        }
        // These two have them beside each allocator.
        if !matches!(self, Self::Summary | Self::Arenas) {
            report.allocators.iter().for_each(|one| write_doubts(&mut page, one));
        }
        write_contents(&mut page, report, self == Self::Unreachable);
        page.finish()
    }
}

fn micros(us: f64) -> String {
    time(Duration::try_from_secs_f64(us / 1e6).unwrap_or_default())
}

fn write_moment(page: &mut Page, report: &CensusReport) {
    let moment = &report.moment;
    if let Some(core) = &report.core {
        return write_core(page, report, core);
    }
    let how = match moment.method {
        Some(LookMethod::Fork) => "; its memory was kept by a clone, which has ended",
        Some(LookMethod::Early) => {
            "; its memory was copied beforehand, and in the stop what was written since"
        }
        Some(LookMethod::Stop | LookMethod::Copy) => "; its memory was read in the stop",
        Some(LookMethod::Nothing | LookMethod::Core) | None => "",
    };
    let (stopped, walked) = (micros(moment.stopped_us), micros(moment.walk_us));
    let threads = match moment.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    page.line([format!("{threads} stopped for {stopped}{how}; walk: {walked}").into()]);
    if let Some(why) = &moment.why {
        let instead = if moment.method == Some(LookMethod::Early) { ", as" } else { ":" };
        page.line([format!("without a clone{instead} {why}").into()]);
    }
}

#[cfg(test)]
mod tests {
    use heapattach_census::Census;
    use heapattach_report::{AllocatorReport, DoubtReport};
    use heapattach_verdict::reconcile::Parts;

    use super::*;

    #[test]
    fn each_view_fits_the_page_and_names_the_process() {
        let mut report = CensusReport::new(4711, "redis-server".to_owned());
        report.fill(&Census::default(), Parts::default());
        for view in HeapView::ALL {
            let text = view.tell(&report, Page::new(Some(80), false));
            assert!(text.starts_with("process 4711 (redis-server)"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
        let text = HeapView::Summary.tell(&report, Page::new(Some(80), false));
        assert!(text.contains("no allocator was recognised"), "{text}");
    }

    #[test]
    fn each_view_says_why_it_is_not_exact() {
        let mut report = CensusReport::new(4711, "redis-server".to_owned());
        let doubts =
            vec![DoubtReport { arena: Some("main".to_owned()), why: "look again".to_owned() }];
        report.allocators = vec![AllocatorReport { doubts, ..AllocatorReport::default() }];
        for view in HeapView::ALL {
            let text = view.tell(&report, Page::new(Some(80), false));
            assert_eq!(text.matches("main: look again").count(), 1, "{view:?}: {text}");
        }
    }
}
