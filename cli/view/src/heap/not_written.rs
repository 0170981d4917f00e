//! Blocks whose pages were never written.

use heapattach_report::{CensusReport, NotWritten};
use heapattach_text::quantity::{bytes, count, counted};

use super::MANY;
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

pub(super) fn write_not_written(page: &mut Page, report: &CensusReport) {
    let Some(found) = &report.not_written else {
        return page.line(["pages of blocks were not looked at".into()]);
    };
    if let Some(error) = &found.error {
        return page.prose("UNKNOWN", Ink::Warning, error);
    }
    write_sum(page, found);
    if !found.rows.is_empty() {
        page.gap();
        write_rows(page, found);
    }
    let text = "A page that is neither in memory nor in swap was never touched, or was returned to the kernel since: it \
                reads as zeroes and takes no memory. Bytes that were never written on other pages are not told.";
    page.prose("", Ink::Dim, text);
}

fn write_sum(page: &mut Page, found: &NotWritten) {
    let sum = &found.sum;
    let text = format!(
        "{} of {} in use lie on pages that were never written: in {}, of which {} have no other pages",
        bytes(sum.not_written),
        bytes(found.in_use),
        counted(sum.blocks, "block"),
        count(sum.whole)
    );
    page.prose("UNTOUCHED", Ink::Bold, &text);
    if found.left_out > 0 {
        let text = format!(
            "{} in shared memory or files are not counted: its pages do not tell",
            counted(found.left_out, "block")
        );
        page.prose("", Ink::Plain, &text);
    }
}

fn write_rows(page: &mut Page, found: &NotWritten) {
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
            bytes(row.sum.not_written),
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
    use heapattach_report::{NotWrittenRow, NotWrittenSum};

    use super::*;

    #[test]
    fn blocks_are_told_by_what_of_them_was_never_written() {
        let sum = NotWrittenSum { blocks: 3, whole: 1, bytes: 3 << 20, not_written: 2 << 20 };
        let row = NotWrittenRow { class: Some("Buffer".to_owned()), size: 1 << 20, sum };
        let mut report = CensusReport::new(4711, "app".to_owned());
        let told = |report: &CensusReport| {
            let mut page = Page::new(Some(100), false);
            write_not_written(&mut page, report);
            page.finish()
        };
        assert!(told(&report).contains("not looked at"));
        let found = NotWritten { in_use: 8 << 20, sum, rows: vec![row], ..NotWritten::default() };
        report.not_written = Some(found);
        // Lines are broken where the page ends.
        let text = told(&report).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("2.0 MiB of 8.0 MiB in use"), "{text}");
        assert!(text.contains("3 blocks, of which 1 have no other pages"), "{text}");
        assert!(text.contains("Buffer") && !text.contains("shared memory"), "{text}");
    }
}
