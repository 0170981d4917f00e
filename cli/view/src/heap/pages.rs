//! How full the pages of allocators are.

use heapattach_report::CensusReport;
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::Page,
    table::{Column, Table},
};

pub(super) fn write_pages(page: &mut Page, report: &CensusReport) {
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
    page.line(["which blocks these are: --view pins".into()]);
}
