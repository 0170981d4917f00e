//! What each arena has.

use heapattach_report::{ArenaDetail, ArenaReport, ArenasReport, CensusReport};
use heapattach_text::quantity::{bytes, count, counted};

use super::{FEW, MANY, trust::write_trust, waste::write_kinds};
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_arenas(page: &mut Page, report: &CensusReport) {
    if let Some(asked) = &report.asked.arena {
        return write_some(page, report, asked);
    }
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

/// Those of one name, each by itself.
fn write_some(page: &mut Page, report: &CensusReport, asked: &ArenasReport) {
    if let Some(error) = &asked.error {
        return page.prose("UNKNOWN", Ink::Warning, error);
    }
    for (number, detail) in asked.found.iter().enumerate() {
        if number > 0 {
            page.gap();
        }
        let allocator = report.allocators.iter().find(|one| one.name == detail.allocator);
        if let Some(allocator) = allocator {
            write_trust(page, allocator);
        }
        let arenas = allocator.map(|one| one.arenas.as_slice()).unwrap_or_default();
        if let Some(arena) = arenas.iter().find(|arena| arena.name == detail.arena) {
            write_sum(page, arena);
        }
        write_detail(page, detail);
    }
}

fn write_sum(page: &mut Page, arena: &ArenaReport) {
    let pages = &arena.pages;
    let text = format!(
        "{}: {} in memory: {} live in {}, {} free, {} in thread caches, {} not yet cut, {} its own",
        arena.name,
        bytes(pages.all().resident),
        bytes(pages.live.resident),
        counted(arena.used_blocks, "block"),
        bytes(pages.free.resident),
        bytes(pages.cached.resident),
        bytes(pages.top.resident),
        bytes(pages.books.resident)
    );
    page.prose("ARENA", Ink::Bold, &text);
    if let Some(system) = arena.system {
        page.prose(
            "",
            Ink::Plain,
            &format!("from the system, by its own count: {}", bytes(system)),
        );
    }
}

fn write_detail(page: &mut Page, detail: &ArenaDetail) {
    let fill = &detail.pages;
    let all = fill.none + fill.below_10 + fill.below_50 + fill.below_90 + fill.full;
    let text = format!(
        "{} in memory: {} without a block in use, {} less than a tenth full, {} less than half, {} less than nine \
         tenths, {} fuller",
        counted(all, "page"),
        count(fill.none),
        count(fill.below_10),
        count(fill.below_50),
        count(fill.below_90),
        count(fill.full)
    );
    page.prose("PAGES", Ink::Plain, &text);
    page.gap();
    super::sizes::write_rows(page, &detail.sizes, detail.different_sizes, MANY);
    if !detail.classes.is_empty() {
        page.gap();
        let columns = [Column::right("in use"), Column::right("blocks"), Column::left("class")];
        let mut table = Table::new(columns);
        for row in detail.classes.iter().take(FEW * 2) {
            table.row([bytes(row.bytes), count(row.blocks), row.name.clone()]);
        }
        table.write(page);
    }
    page.gap();
    write_kinds(page, &detail.waste);
    if detail.waste.left_out.blocks > 0 {
        let text = format!(
            "{} were not looked at for waste: there was no time (--waste-limit), or they could not be read",
            counted(detail.waste.left_out.blocks, "block")
        );
        page.prose("LEFT OUT", Ink::Warning, &text);
    }
}

#[cfg(test)]
mod tests {
    use heapattach_report::{AllocatorReport, SizeRow};

    use super::*;

    #[test]
    fn one_arena_is_told_by_itself_and_a_wrong_name_with_those_that_there_are() {
        let mut report = CensusReport::new(4711, "app".to_owned());
        let arena = |name: &str| ArenaReport { name: name.to_owned(), ..ArenaReport::default() };
        report.allocators = vec![AllocatorReport {
            name: "glibc".to_owned(),
            arenas: vec![arena("main"), arena("arena 1")],
            ..AllocatorReport::default()
        }];
        let detail = ArenaDetail {
            allocator: "glibc".to_owned(),
            arena: "arena 1".to_owned(),
            sizes: vec![SizeRow { size: 104, used: 7, free: 2 }],
            different_sizes: 1,
            ..ArenaDetail::default()
        };
        let told = |report: &CensusReport| {
            let mut page = Page::new(Some(100), false);
            write_arenas(&mut page, report);
            page.finish()
        };
        let mut asked = ArenasReport { name: "1".to_owned(), found: vec![detail], error: None };
        report.asked.arena = Some(asked.clone());
        let text = told(&report);
        assert!(text.contains("arena 1: 0 B in memory") && !text.contains("main:"), "{text}");
        assert!(text.contains("104 B") && text.contains("may be waste"), "{text}");
        (asked.found, asked.error) = (Vec::new(), Some("no arena 7; need one of: x".to_owned()));
        report.asked.arena = Some(asked);
        assert!(told(&report).contains("no arena 7"));
    }
}
