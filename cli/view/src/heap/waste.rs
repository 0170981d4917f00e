//! What of the blocks in use may be waste.

use std::time::Duration;

use heapattach_report::{CensusReport, Waste, WasteKind, WasteRow, WasteSum};
use heapattach_text::quantity::{bytes, count, counted, time};

use super::MANY;
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

/// Of what was looked at: from so many percent on it is named on the first screen; and from so many bytes.
const PERCENT: f64 = 10.0;
const LEAST: u64 = 1 << 20;

/// What is told of each kind; the second for a sentence.
fn words(kind: WasteKind) -> (&'static str, &'static str) {
    match kind {
        WasteKind::Zeroes => ("blocks of zeroes alone", "blocks of zeroes alone"),
        WasteKind::Copies => ("copies of another block, every byte", "copies of other blocks"),
        WasteKind::TextCopies => ("copies of a text, up to its end", "copies of texts"),
        WasteKind::Tails => {
            ("ends of blocks, zeroes: half of the block or more", "ends of blocks that are zeroes")
        }
    }
}

fn kinds(waste: &Waste) -> [(WasteKind, WasteSum); 4] {
    [
        (WasteKind::Zeroes, waste.zeroes),
        (WasteKind::Copies, waste.copies),
        (WasteKind::TextCopies, waste.text_copies),
        (WasteKind::Tails, waste.tails),
    ]
}

/// On the first screen, where it is much.
pub(super) fn write_waste_line(page: &mut Page, report: &CensusReport) {
    let Some(waste) = &report.waste else { return };
    if waste.percent() <= PERCENT || waste.bytes() < LEAST {
        return;
    }
    let mut parts: Vec<_> = kinds(waste).into_iter().filter(|(_, sum)| sum.bytes > 0).collect();
    parts.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
    let part =
        |(kind, sum): &(WasteKind, WasteSum)| format!("{} {}", bytes(sum.bytes), words(*kind).1);
    let parts = parts.iter().take(2).map(part).collect::<Vec<_>>().join(", ");
    let text = format!(
        "{}{} of {} in use that were looked at ({:.0} %) may be waste: {parts}; see --view waste",
        about(waste),
        bytes(waste.bytes()),
        bytes(waste.looked_at.bytes),
        waste.percent()
    );
    page.prose("WASTE", Ink::Warning, &text);
}

fn about(waste: &Waste) -> &'static str {
    if waste.one_in > 1 { "about " } else { "" }
}

pub(super) fn write_waste(page: &mut Page, report: &CensusReport) {
    let Some(waste) = &report.waste else {
        return page.line(["the bytes of blocks were not looked at".into()]);
    };
    let millis = |ms: f64| time(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default());
    let looked = format!(
        "{} in {} in use were looked at, in {}",
        bytes(waste.looked_at.bytes),
        counted(waste.looked_at.blocks, "block"),
        millis(waste.took_ms)
    );
    page.line([looked.into()]);
    if waste.left_out.blocks > 0 {
        let text = format!(
            "{} in {} were not: there was no time ({}, --waste-limit), or they could not be read; the \
             figures are of the others",
            bytes(waste.left_out.bytes),
            counted(waste.left_out.blocks, "block"),
            millis(waste.limit_ms)
        );
        page.prose("LEFT OUT", Ink::Warning, &text);
    }
    if waste.one_in > 1 {
        let text = format!(
            "there are too many different contents: copies and ends are estimates, of one in {} of them (95 % CI \
             of their sum: plus and minus {})",
            waste.one_in,
            bytes(heapattach_verdict::figure::whole(waste.margin))
        );
        page.prose("ESTIMATE", Ink::Warning, &text);
    }
    page.gap();
    write_kinds(page, waste);
    page.gap();
    write_rows(page, waste);
    let text = "Only the bytes are known, not what they are for: the program may need zeroes, and copies that \
                it changes later. Each byte counts once, and only if it is in memory or in swap. Room at the end \
                of blocks that has old bytes in it is not seen, nor are copies that differ in their padding: \
                waste can be more.";
    page.prose("", Ink::Dim, text);
}

pub(super) fn write_kinds(page: &mut Page, waste: &Waste) {
    let columns = [
        Column::right("may be waste"),
        Column::right("part"),
        Column::right("blocks"),
        Column::left("what"),
    ];
    let mut table = Table::new(columns);
    let part =
        |sum: u64| format!("{:.1} %", sum as f64 * 100.0 / waste.looked_at.bytes.max(1) as f64);
    for (kind, sum) in kinds(waste) {
        let what = words(kind).0.to_owned();
        table.row([bytes(sum.bytes), part(sum.bytes), count(sum.blocks), what]);
    }
    let all = waste.bytes();
    table.row([bytes(all), part(all), String::new(), "all of it".to_owned()]);
    table.write(page);
}

fn write_rows(page: &mut Page, waste: &Waste) {
    if waste.rows.is_empty() {
        return;
    }
    let columns = [
        Column::right("may be waste"),
        Column::right("blocks"),
        Column::right("size"),
        Column::left("what"),
    ];
    let mut table = Table::new(columns);
    for row in waste.rows.iter().take(MANY) {
        let WasteSum { blocks, bytes: sum } = row.waste;
        table.row([bytes(sum), count(blocks), bytes(row.size), what(row)]);
    }
    table.write(page);
    if let Some(rest) = waste.rows.len().checked_sub(MANY).filter(|rest| *rest > 0) {
        page.line([Span::new(Ink::Dim, format!("and {rest} other groups (--json has them)"))]);
    }
}

fn what(row: &WasteRow) -> String {
    let class = row.class.as_ref().map_or(String::new(), |class| format!("{class}: "));
    let of = match (row.kind, row.contents) {
        (WasteKind::Zeroes, _) => "zeroes".to_owned(),
        (WasteKind::Tails, _) => "zeroes at the end".to_owned(),
        (WasteKind::Copies, 1) => "copies of one block".to_owned(),
        (WasteKind::Copies, many) => format!("copies of {} blocks", count(many)),
        (WasteKind::TextCopies, 1) => "copies of one text".to_owned(),
        (WasteKind::TextCopies, many) => format!("copies of {} texts", count(many)),
    };
    format!("{class}{of}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(zeroes: u64) -> CensusReport {
        let mut report = CensusReport::new(4711, "app".to_owned());
        let sum = |blocks, bytes| WasteSum { blocks, bytes };
        report.waste = Some(Waste {
            looked_at: sum(1000, 64 << 20),
            zeroes: sum(10, zeroes),
            tails: sum(5, 1 << 20),
            one_in: 1,
            rows: vec![WasteRow {
                kind: WasteKind::Copies,
                class: Some("Conn".to_owned()),
                size: 48,
                contents: 2,
                waste: sum(3, 144),
            }],
            ..Waste::default()
        });
        report
    }

    fn written(report: &CensusReport, write: fn(&mut Page, &CensusReport)) -> String {
        let mut page = Page::new(Some(120), false);
        write(&mut page, report);
        page.finish()
    }

    #[test]
    fn the_first_screen_names_waste_from_a_tenth_on() {
        assert_eq!(written(&report(5 << 20), write_waste_line), "");
        let text = written(&report(7 << 20), write_waste_line);
        assert!(text.contains("8.0 MiB of 64.0 MiB in use"), "{text}");
        assert!(text.contains("(12 %) may be waste: 7.0 MiB blocks of zeroes alone"), "{text}");
    }

    #[test]
    fn what_is_an_estimate_or_was_left_out_is_told_with_the_figures() {
        let mut report = report(7 << 20);
        let text = written(&report, write_waste);
        assert!(text.contains("Conn: copies of 2 blocks"), "{text}");
        assert!(!text.contains("ESTIMATE") && !text.contains("LEFT OUT"), "{text}");
        let waste = report.waste.as_mut().unwrap();
        (waste.one_in, waste.margin) = (4, 1048576.0);
        waste.left_out = WasteSum { blocks: 7, bytes: 70 };
        let text = written(&report, write_waste);
        assert!(text.contains("one in 4") && text.contains("minus 1.0 MiB"), "{text}");
        assert!(text.contains("70 B in 7 blocks were not"), "{text}");
    }
}
