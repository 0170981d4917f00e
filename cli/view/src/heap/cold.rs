//! Blocks that were not written while pages were watched.

use std::time::Duration;

use heapattach_report::{CensusReport, ColdReport};
use heapattach_text::quantity::{bytes, count, counted, time};

use super::MANY;
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_cold(page: &mut Page, report: &CensusReport) {
    let Some(found) = &report.cold else {
        return page.line(["it was not watched what is written: --cold TIME does".into()]);
    };
    if let Some(error) = &found.error {
        return page.prose("UNKNOWN", Ink::Warning, error);
    }
    write_sum(page, found);
    if !found.rows.is_empty() {
        page.gap();
        write_rows(page, found);
    }
    let text = "A page counts as written as soon as one of its bytes was: the bytes above were certainly not written, others \
                may not have been either. What only reads them is not seen.";
    page.prose("", Ink::Dim, text);
}

/// Of a hundred.
fn part(one: u64, all: u64) -> String {
    format!("{:.0} %", 100.0 * one as f64 / all.max(1) as f64)
}

fn write_sum(page: &mut Page, found: &ColdReport) {
    let sum = &found.sum;
    let watched = time(Duration::from_millis(found.watched_ms));
    let text = format!(
        "{} of {} in use ({}) were not written for {watched}: in {}, of which {} have no byte on another page",
        bytes(sum.cold),
        bytes(found.in_use),
        part(sum.cold, found.in_use),
        counted(sum.blocks, "block"),
        count(sum.whole)
    );
    page.prose("COLD", Ink::Bold, &text);
    let text = format!(
        "{} were watched, page by page; pages of {} were written meanwhile",
        bytes(found.watched),
        bytes(found.written)
    );
    page.prose("", Ink::Plain, &text);
    if found.not_watched > 0 {
        let text = format!(
            "{} of blocks lie in files or shared memory, which are not watched, and count as written",
            bytes(found.not_watched)
        );
        page.prose("", Ink::Plain, &text);
    }
}

fn write_rows(page: &mut Page, found: &ColdReport) {
    let columns = [
        Column::right("not written"),
        Column::right("of"),
        Column::right("blocks"),
        Column::right("whole"),
        Column::right("size"),
        Column::left("class"),
    ];
    let mut table = Table::new(columns);
    for row in found.rows.iter().take(MANY) {
        table.row([
            bytes(row.sum.cold),
            bytes(row.sum.bytes),
            count(row.sum.blocks),
            count(row.sum.whole),
            bytes(row.size),
            row.class.clone().unwrap_or_default(),
        ]);
    }
    table.write(page);
    if let Some(rest) = found.rows.len().checked_sub(MANY).filter(|rest| *rest > 0) {
        page.line([Span::new(Ink::Dim, format!("and {rest} other groups (--json has them)"))]);
    }
}

#[cfg(test)]
mod tests {
    use heapattach_report::{ColdRow, ColdSum};

    use super::*;

    #[test]
    fn blocks_are_told_by_what_of_them_was_not_written() {
        let sum = ColdSum { blocks: 3, whole: 1, bytes: 3 << 20, cold: 2 << 20 };
        let row = ColdRow { class: Some("Session".to_owned()), size: 1 << 20, sum };
        let mut report = CensusReport::new(4711, "app".to_owned());
        let told = |report: &CensusReport| {
            let mut page = Page::new(Some(100), false);
            write_cold(&mut page, report);
            // Lines are broken where the page ends.
            page.finish().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(told(&report).contains("--cold TIME"));
        report.cold = Some(ColdReport {
            watched_ms: 60_000,
            watched: 9 << 20,
            written: 5 << 20,
            in_use: 8 << 20,
            not_watched: 1 << 20,
            sum,
            rows: vec![row],
            error: None,
        });
        let text = told(&report);
        assert!(
            text.contains("2.0 MiB of 8.0 MiB in use (25 %) were not written for 60.0 s"),
            "{text}"
        );
        assert!(text.contains("pages of 5.0 MiB were written meanwhile"), "{text}");
        assert!(text.contains("1.0 MiB of blocks lie in files"), "{text}");
        assert!(text.contains("Session"), "{text}");
    }
}
