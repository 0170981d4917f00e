//! What allocators count, as a person reads it: one screen with advice, or one of its parts.

mod advice;
mod arenas;
mod figure;
mod go;
mod locks;
mod rates;
mod settings;
mod sizes;
mod summary;

use heapattach_report::{CountedReport, CountersReport, counters::AllocatorKind};
use heapattach_text::quantity::bytes;

use crate::page::{Ink, Page, Span};

/// Rows of a view.
const MANY: usize = 40;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocatorView {
    /// The figures that matter, and advice.
    #[default]
    Summary,
    /// What is counted a second.
    Rates,
    /// By size class.
    Sizes,
    /// By arena.
    Arenas,
    /// By lock.
    Locks,
    /// Settings, and where they come from.
    Settings,
}

impl AllocatorView {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Summary, Self::Rates, Self::Sizes, Self::Arenas, Self::Locks, Self::Settings];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Rates => "rates",
            Self::Sizes => "sizes",
            Self::Arenas => "arenas",
            Self::Locks => "locks",
            Self::Settings => "settings",
        }
    }

    /// What it shows.
    pub fn about(self) -> &'static str {
        match self {
            Self::Summary => "The figures that matter, and advice with the setting to type",
            Self::Rates => "Allocations, fills, flushes and lock waits a second, with --every",
            Self::Sizes => "Slabs and blocks by size class",
            Self::Arenas => "What each arena has",
            Self::Locks => "Locks: how often they were taken and waited for",
            Self::Settings => "All settings, and where each comes from",
        }
    }

    /// Writes it.
    pub fn tell(self, report: &CountersReport, mut page: Page) -> String {
        write_head(&mut page, report);
        for one in &report.allocators {
            page.gap();
            write_name(&mut page, one);
            match self {
                Self::Summary if one.statistics.allocator == AllocatorKind::Go => {
                    go::write(&mut page, report, one);
                }
                Self::Summary => summary::write(&mut page, one),
                Self::Rates => rates::write(&mut page, one),
                Self::Sizes => sizes::write(&mut page, one),
                Self::Arenas => arenas::write(&mut page, one),
                Self::Locks => locks::write(&mut page, one),
                Self::Settings => settings::write(&mut page, one),
            }
            if self == Self::Summary {
                advice::write(&mut page, report.pid, one);
            }
        }
        if let Some(applied) = &report.applied {
            page.gap();
            advice::write_applied(&mut page, applied);
        }
        page.finish()
    }
}

fn write_head(page: &mut Page, report: &CountersReport) {
    let process = &report.process;
    page.line([format!("process {} ({})", report.pid, report.command).into()]);
    let huge = match process.anonymous_huge {
        0 => String::new(),
        huge => format!(", {} of it in huge pages", bytes(huge)),
    };
    page.line([format!(
        "resident {}{huge}; {} threads on {} processors; not stopped for this",
        bytes(process.resident),
        process.threads,
        process.cpus
    )
    .into()]);
}

fn write_name(page: &mut Page, one: &CountedReport) {
    let statistics = &one.statistics;
    let module = statistics.module.rsplit('/').next().unwrap_or_default();
    // Go's version has its name in it.
    let name = match statistics.version.starts_with(statistics.allocator.name()) {
        true => statistics.version.clone(),
        false => [statistics.allocator.name(), statistics.version.as_str()].join(" "),
    };
    page.line([Span::new(Ink::Bold, name.trim()), format!(" in {module}").into()]);
    for unknown in &statistics.unknown {
        page.prose("", Ink::Warning, &format!("not told: {unknown}"));
    }
}

#[cfg(test)]
mod tests {
    use heapattach_census::counters::{Arena, Class, Numbers, Statistics, Value};
    use heapattach_report::RatesReport;
    use heapattach_verdict::advice::{Scene, advise};

    use super::*;

    #[test]
    fn a_go_program_is_told_in_sentences_that_add_up() {
        let mut now = Statistics {
            allocator: AllocatorKind::Go,
            version: "go1.27".to_owned(),
            ..Statistics::default()
        };
        now.stats = Numbers::from([
            ("HeapAlloc", 30 << 20),
            ("HeapInuse", 40 << 20),
            ("HeapIdle", 20 << 20),
            ("HeapReleased", 5 << 20),
            ("StackSys", 2 << 20),
            ("mapped_ready", 60 << 20),
            ("NextGC", 64 << 20),
            ("PauseTotalNs", 2_500_000),
        ]);
        now.opt.insert("GOMEMLIMIT".to_owned(), Value::Number(1 << 30));
        let mut report = CountersReport::new(812, "server".to_owned());
        report.process.resident = 70 << 20;
        report.allocators = vec![CountedReport { statistics: now, ..CountedReport::default() }];
        let text = AllocatorView::Summary.tell(&report, Page::new(Some(200), false));
        for told in [
            "30.0 MiB of objects (0) in 40.0 MiB of spans, 75 % of them; 15.0 MiB free",
            "the next one at 64.0 MiB (GOGC=, GOMEMLIMIT=1.0 GiB)",
            "70.0 MiB = 40.0 MiB heap in use + 15.0 MiB heap free + 2.0 MiB stacks + 3.0 MiB books + 10.0 MiB",
        ] {
            assert!(text.contains(told), "{text}");
        }
    }

    fn report() -> CountersReport {
        let mut now = Statistics {
            allocator: AllocatorKind::Jemalloc,
            version: "5.3.0-0-g0".to_owned(),
            module: "/usr/lib/libjemalloc.so.2".to_owned(),
            ..Statistics::default()
        };
        now.stats = Numbers::from([
            ("allocated", 51 << 20),
            ("active", 127 << 20),
            ("resident", 134 << 20),
            ("narenas", 1),
        ]);
        now.opt.insert("narenas".to_owned(), Value::Number(8));
        let class = Class {
            size: 640,
            numbers: Numbers::from([("curregs", 10), ("curslabs", 700), ("slab_size", 20480)]),
            mutex: Numbers::from([("num_ops", 7)]),
        };
        now.arenas = vec![Arena { bins: vec![class], ..Arena::default() }];
        let mut report = CountersReport::new(812, "redis-server".to_owned());
        let scene = Scene { now: &now, before: None, conditions: &report.process };
        let advice = advise(&scene);
        assert!(!advice.is_empty());
        let rates = Some(RatesReport::of(&Statistics::default(), &now, 1.0));
        report.allocators =
            vec![CountedReport { statistics: now, advice, rates, ..CountedReport::default() }];
        report
    }

    #[test]
    fn every_view_fits_the_page_and_names_the_allocator() {
        for view in AllocatorView::ALL {
            let text = view.tell(&report(), Page::new(Some(80), false));
            assert!(text.contains("jemalloc 5.3.0-0-g0 in libjemalloc.so.2"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }

    #[test]
    fn advice_has_what_to_type() {
        let text = AllocatorView::Summary.tell(&report(), Page::new(Some(80), false));
        assert!(text.contains("allocated") && text.contains("51.0 MiB"), "{text}");
        assert!(text.contains("13.7 MiB lie in gaps"), "{text}");
    }
}
