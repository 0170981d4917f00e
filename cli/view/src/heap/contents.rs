//! How blocks begin: only if the user asks for it.

use heapattach_report::CensusReport;
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

/// Behind a view; of leaked blocks alone where that is the view.
pub(super) fn write_contents(page: &mut Page, report: &CensusReport, only_leaked: bool) {
    let Some(contents) = &report.asked.contents else { return };
    page.gap();
    let text = format!(
        "the first {} bytes of blocks, as they are in memory (a dot is what cannot be printed): they can have \
         passwords, keys and personal data; do not pass them on",
        contents.bytes
    );
    page.prose("CONTENTS", Ink::Warning, &text);
    let columns = [
        Column::right("blocks"),
        Column::right("size"),
        Column::left("class"),
        Column::left("begins with"),
    ];
    let mut table = Table::new(columns);
    let groups = report.unreachable.iter().flat_map(|found| &found.groups);
    for group in groups.filter(|_| only_leaked).take(super::MANY) {
        let Some(head) = &group.head else { continue };
        table.row([
            count(group.own.blocks),
            bytes(group.size),
            group.class.clone().unwrap_or_default(),
            head.clone(),
        ]);
    }
    for row in contents.rows.iter().filter(|_| !only_leaked) {
        for (number, head) in row.heads.iter().enumerate() {
            let first = |text: String| if number == 0 { text } else { String::new() };
            table.row([
                first(count(row.blocks)),
                first(bytes(row.size)),
                first(row.class.clone().unwrap_or_default()),
                head.clone(),
            ]);
        }
    }
    table.write(page);
}

#[cfg(test)]
mod tests {
    use heapattach_report::{ContentsReport, ContentsRow};

    use super::*;

    #[test]
    fn contents_are_told_with_a_warning_and_not_unless_they_were_asked_for() {
        let mut report = CensusReport::new(4711, "app".to_owned());
        let told = |report: &CensusReport| {
            let mut page = Page::new(Some(100), false);
            write_contents(&mut page, report, false);
            page.finish()
        };
        assert_eq!(told(&report), "");
        let heads = vec!["GET /a".to_owned(), "GET /b".to_owned()];
        let row = ContentsRow { class: None, size: 64, blocks: 7, heads };
        report.asked.contents = Some(ContentsReport { bytes: 16, rows: vec![row] });
        let text = told(&report);
        assert!(text.contains("do not pass them on"), "{text}");
        assert!(text.contains("GET /a") && text.contains("GET /b"), "{text}");
    }
}
