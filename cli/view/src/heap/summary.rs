//! The first screen: what all memory is.

use heapattach_report::CensusReport;
use heapattach_text::quantity::bytes;

use super::{
    FEW, go::write_go_summary, holders::write_suspects, sizes::write_sizes, trust::write_trust,
    waste::write_waste_line,
};
use crate::{
    page::{Ink, Page, Span},
    table::{Cell, Column, Table},
};

pub(super) fn write_summary(page: &mut Page, report: &CensusReport) {
    page.prose("VERDICT", Ink::Bold, &report.verdict.text);
    for allocator in &report.allocators {
        write_trust(page, allocator);
    }
    write_suspects(page, report);
    write_waste_line(page, report);
    write_go_summary(page, report);
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
        page.command(
            "",
            "heapattach heap --view holders   # or types, arenas, sizes, pages, mappings",
        );
    }
}

/// What bytes are counted.
fn there(report: &CensusReport) -> &'static str {
    if report.core.is_some() { "in the core" } else { "resident" }
}

fn write_memory(page: &mut Page, report: &CensusReport) {
    let memory = &report.memory;
    let has_swap = memory.total.swapped > 0;
    let mut columns = vec![Column::right(there(report)), Column::right("part")];
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
    let whole = if report.core.is_some() { "all of the core" } else { "resident set" };
    row(memory.total.resident, "100 %".to_owned(), memory.total.swapped, whole);
    table.write(page);
    if report.core.is_some() {
        return;
    }
    let tables = format!("page tables, which are not in it: {}", bytes(memory.page_tables));
    page.line([Span::new(Ink::Dim, tables)]);
}
