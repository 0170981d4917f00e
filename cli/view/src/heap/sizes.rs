//! Blocks by usable size.

use heapattach_report::CensusReport;
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_sizes(page: &mut Page, report: &CensusReport, most: usize) {
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
