//! The largest mappings.

use heapattach_report::CensusReport;
use heapattach_text::quantity::bytes;

use super::MANY;
use crate::{
    page::Page,
    table::{Column, Table},
};

pub(super) fn write_mappings(page: &mut Page, report: &CensusReport) {
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
