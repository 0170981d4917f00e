//! Objects by class.

use heapattach_report::CensusReport;
use heapattach_text::quantity::{bytes, count};

use super::MANY;
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_types(page: &mut Page, report: &CensusReport) {
    if report.classes.is_empty() {
        return page.line([
            "no block in use is a Python or Go object, or a C++ object that has virtual functions"
                .into(),
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
