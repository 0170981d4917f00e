//! What all memory of a process is, as a person reads it: one screen, or one of its parts.

use std::time::Duration;

use heapattach_report::{AllocatorReport, Amount, CensusReport, LookMethod};
use heapattach_text::quantity::{bytes, count, time};

use super::{
    page::{Ink, Page, Span},
    table::{Cell, Column, Table},
};

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
}

impl HeapView {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Summary,
        Self::Sizes,
        Self::Types,
        Self::Unreachable,
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
            Self::Types => "C++ and Python objects by their class, stripped programs' too",
            Self::Unreachable => "Blocks that no pointer leads to: leaked, also before the look",
        }
    }

    /// Writes it.
    pub fn tell(self, report: &CensusReport, mut page: Page) -> String {
        page.line([format!("process {} ({})", report.pid, report.command).into()]);
        write_moment(&mut page, report);
        page.gap();
        match self {
            Self::Summary => write_summary(&mut page, report),
            Self::Sizes => write_sizes(&mut page, report, MANY),
            Self::Arenas => write_arenas(&mut page, report),
            Self::Mappings => write_mappings(&mut page, report),
            Self::Pages => write_pages(&mut page, report),
            Self::Types => write_types(&mut page, report),
            Self::Unreachable => write_unreachable(&mut page, report),
        }
        page.finish()
    }
}

fn micros(us: f64) -> String {
    time(Duration::try_from_secs_f64(us / 1e6).unwrap_or_default())
}

fn write_moment(page: &mut Page, report: &CensusReport) {
    let moment = &report.moment;
    let how = match moment.method {
        Some(LookMethod::Fork) => "; its memory was kept by a clone, which has ended",
        Some(LookMethod::Stop | LookMethod::Copy) => "; its memory was read in the stop",
        Some(LookMethod::Nothing) | None => "",
    };
    let (stopped, walked) = (micros(moment.stopped_us), micros(moment.walk_us));
    let threads = match moment.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    page.line([format!("{threads} stopped for {stopped}{how}; walk: {walked}").into()]);
    if let Some(why) = &moment.why {
        page.line([format!("without a clone: {why}").into()]);
    }
}

fn write_summary(page: &mut Page, report: &CensusReport) {
    page.prose("VERDICT", Ink::Bold, &report.verdict.text);
    for allocator in &report.allocators {
        write_trust(page, allocator);
    }
    if report.allocators.is_empty() {
        page.prose("HEAP", Ink::Warning, "no allocator was recognised");
    }
    page.gap();
    write_memory(page, report);
    if !report.sizes.is_empty() {
        page.gap();
        write_sizes(page, report, FEW);
    }
    let next = &report.verdict;
    if !next.next.is_empty() {
        page.gap();
        page.command("NEXT", &format!("{}   # {}", next.next, next.why));
        page.command("", "heapattach heap --view arenas   # or sizes, pages, mappings");
    }
}

/// How far what is told of an allocator is certain.
fn write_trust(page: &mut Page, allocator: &AllocatorReport) {
    if let Some(why) = &allocator.refused {
        return page.prose("HEAP", Ink::Warning, &format!("{}: {why}", allocator.name));
    }
    let (blocks, arenas) = (count(allocator.blocks()), allocator.arenas.len());
    let agree: u64 = allocator.checks.iter().map(|check| check.times - check.failed).sum();
    let all: u64 = allocator.checks.iter().map(|check| check.times).sum();
    let trust = match allocator.is_exact {
        true => format!("exact: all {all} checks hold"),
        false => format!("not exact: {agree} of {all} checks hold"),
    };
    let text = format!("{}: {blocks} blocks in use in {arenas} arenas; {trust}", allocator.layout);
    page.prose("HEAP", Ink::Plain, &text);
    if allocator.in_flight > 0 {
        let text = format!(
            "{} threads may be in the middle of a call: so many blocks may be told as they were before it",
            allocator.in_flight
        );
        page.prose("", Ink::Plain, &text);
    }
    for doubt in &allocator.doubts {
        let arena = doubt.arena.as_ref().map(|arena| format!("{arena}: ")).unwrap_or_default();
        page.prose("DOUBT", Ink::Warning, &format!("{arena}{}", doubt.why));
    }
    allocator.notes.iter().for_each(|note| page.prose("", Ink::Plain, note));
}

fn write_memory(page: &mut Page, report: &CensusReport) {
    let memory = &report.memory;
    let has_swap = memory.total.swapped > 0;
    let mut columns = vec![Column::right("resident"), Column::right("part")];
    if has_swap {
        columns.push(Column::right("swapped"));
    }
    columns.push(Column::left("memory"));
    let mut table = Table::new(columns);
    let mut row = |resident: u64, percent: String, swapped: u64, name: &str| {
        let mut cells = vec![Cell::from(bytes(resident)), Cell::from(percent)];
        if has_swap {
            cells.push(bytes(swapped).into());
        }
        cells.push(name.into());
        table.row(cells);
    };
    for part in memory.parts.iter().filter(|part| part.resident + part.swapped > 0) {
        let percent = format!("{:.1} %", memory.percent(&[part.part]));
        row(part.resident, percent, part.swapped, part.part.name());
    }
    if memory.zero_page > 0 {
        let what = "less: pages of zeroes that the kernel counts for no process";
        row(memory.zero_page, String::new(), 0, what);
    }
    row(memory.total.resident, "100 %".to_owned(), memory.total.swapped, "resident set");
    table.write(page);
    let tables = format!("page tables, which are not in it: {}", bytes(memory.page_tables));
    page.line([Span::new(Ink::Dim, tables)]);
}

fn write_sizes(page: &mut Page, report: &CensusReport, most: usize) {
    let columns = [
        Column::right("in use"),
        Column::right("blocks"),
        Column::right("free"),
        Column::left("usable size"),
    ];
    let mut table = Table::new(columns);
    for row in report.sizes.iter().take(most) {
        table.row([bytes(row.bytes()), count(row.used), count(row.free), bytes(row.size)]);
    }
    table.write(page);
    let rest = report.different_sizes.saturating_sub(most as u64);
    if rest > 0 {
        page.line([Span::new(Ink::Dim, format!("and {} other sizes", count(rest)))]);
    }
}

fn write_arenas(page: &mut Page, report: &CensusReport) {
    let columns = [
        Column::right("resident"),
        Column::right("live"),
        Column::right("free"),
        Column::right("cached"),
        Column::right("uncut"),
        Column::right("books"),
        Column::right("blocks"),
        Column::left("arena"),
    ];
    for allocator in &report.allocators {
        write_trust(page, allocator);
        let mut table = Table::new(columns);
        let mut arenas: Vec<_> = allocator.arenas.iter().collect();
        arenas.sort_by_key(|arena| std::cmp::Reverse(arena.pages.all().resident));
        for arena in arenas.iter().take(MANY) {
            let pages = &arena.pages;
            table.row([
                bytes(pages.all().resident),
                bytes(pages.live.resident),
                bytes(pages.free.resident),
                bytes(pages.cached.resident),
                bytes(pages.top.resident),
                bytes(pages.books.resident),
                count(arena.used_blocks),
                arena.name.clone(),
            ]);
        }
        table.write(page);
        if let Some(rest) = arenas.len().checked_sub(MANY).filter(|rest| *rest > 0) {
            page.line([Span::new(Ink::Dim, format!("and {rest} other arenas"))]);
        }
    }
}

fn write_mappings(page: &mut Page, report: &CensusReport) {
    let columns = [
        Column::right("resident"),
        Column::right("swapped"),
        Column::right("allocators"),
        Column::right("size"),
        Column::left("kind"),
        Column::left("mapping"),
    ];
    let mut table = Table::new(columns);
    for row in report.mappings.iter().take(MANY) {
        table.row([
            bytes(row.resident),
            bytes(row.swapped),
            bytes(row.allocators),
            bytes(row.size),
            row.permissions.clone(),
            row.name.clone(),
        ]);
    }
    table.write(page);
}

fn write_pages(page: &mut Page, report: &CensusReport) {
    let fill = &report.pages;
    let mut table = Table::new([
        Column::right("pages"),
        Column::right("bytes"),
        Column::left("of which blocks in use take"),
    ]);
    let rows = [
        (fill.none, "nothing"),
        (fill.below_10, "less than a tenth"),
        (fill.below_50, "a tenth to a half"),
        (fill.below_90, "a half to nine tenths"),
        (fill.full, "more"),
    ];
    for (pages, what) in rows {
        table.row([count(pages), bytes(pages.saturating_mul(4096)), what.to_owned()]);
    }
    table.write(page);
    let text = format!(
        "{} of blocks in use keep {} of pages in memory that they take less than a tenth of",
        bytes(fill.sparse_live),
        bytes(fill.below_10.saturating_mul(4096))
    );
    page.line([text.into()]);
}

fn write_types(page: &mut Page, report: &CensusReport) {
    if report.classes.is_empty() {
        return page.line([
            "no block in use is a Python object or a C++ object that has virtual functions".into(),
        ]);
    }
    let columns = [
        Column::right("in use"),
        Column::right("blocks"),
        Column::left("language"),
        Column::left("class"),
    ];
    let mut table = Table::new(columns);
    for row in report.classes.iter().take(MANY) {
        let language = row.language.name().to_owned();
        table.row([bytes(row.bytes), count(row.blocks), language, row.name.clone()]);
    }
    table.write(page);
    if let Some(rest) = report.classes.len().checked_sub(MANY).filter(|rest| *rest > 0) {
        page.line([Span::new(Ink::Dim, format!("and {rest} other classes (--json has them)"))]);
    }
}

fn write_unreachable(page: &mut Page, report: &CensusReport) {
    let Some(found) = &report.unreachable else { return };
    if let Some(error) = &found.error {
        let text = format!("unreachable blocks are not told: {error}");
        return page.prose("UNKNOWN", Ink::Warning, &text);
    }
    let amount = |of: &Amount| format!("{} in {} blocks", bytes(of.bytes), count(of.blocks));
    let text = format!(
        "{}; {} that only these lead to; possible: {}",
        amount(&found.direct),
        amount(&found.indirect),
        amount(&found.possible)
    );
    page.prose("LEAKED", Ink::Bold, &text);
    if found.groups.is_empty() {
        return;
    }
    let columns = [
        Column::right("leaked"),
        Column::right("blocks"),
        Column::right("with them"),
        Column::right("size"),
        Column::left("kind"),
        Column::left("class"),
    ];
    let mut table = Table::new(columns);
    for group in found.groups.iter().take(MANY) {
        table.row([
            bytes(group.own.bytes),
            count(group.own.blocks),
            bytes(group.held.bytes),
            bytes(group.size),
            group.kind.name().to_owned(),
            group.class.clone().unwrap_or_default(),
        ]);
    }
    table.write(page);
}

#[cfg(test)]
mod tests {
    use heapattach_census::Census;
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
}
