//! Blocks by usable size.

use heapattach_report::{CensusReport, SizeRow};
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_sizes(page: &mut Page, report: &CensusReport, most: usize) {
    write_rows(page, &report.sizes, report.different_sizes, most);
}

/// Rows of a moment, or of one arena.
pub(super) fn write_rows(page: &mut Page, rows: &[SizeRow], different: u64, most: usize) {
    let columns = [
        Column::right("in use"),
        Column::right("blocks"),
        Column::right("free"),
        Column::left("usable size"),
    ];
    let mut table = Table::new(columns);
    for row in rows.iter().take(most) {
        table.row([bytes(row.bytes()), count(row.used), count(row.free), bytes(row.size)]);
    }
    table.write(page);
    let rest = different.saturating_sub(most as u64);
    if rest > 0 {
        page.line([Span::new(Ink::Dim, format!("and {} other sizes", count(rest)))]);
    }
}
