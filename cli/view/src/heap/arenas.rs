//! What each arena has.

use heapattach_report::CensusReport;
use heapattach_text::quantity::{bytes, count};

use super::{MANY, trust::write_trust};
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_arenas(page: &mut Page, report: &CensusReport) {
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
