//! What became different between moments: two sentences, then what grew, of each kind.

use heapattach_moment::{Difference, Row, Section, Side};
use heapattach_text::{
    date,
    quantity::{bytes, count},
};
use heapattach_verdict::moments::Steadiness;

use crate::{
    page::{Ink, Page, Span},
    table::{Cell, Column, Table},
};

/// Writes it, with so many rows of each kind.
pub fn tell_difference(difference: &Difference, limit: usize, mut page: Page) -> String {
    let [grew, mostly] = &difference.verdict;
    page.prose("VERDICT", Ink::Bold, grew);
    page.prose("", Ink::Plain, mostly);
    for note in &difference.notes {
        page.prose("NOTE", Ink::Warning, note);
    }
    for (number, side) in (1..).zip(&difference.moments) {
        page.prose(&number.to_string(), Ink::Plain, &named(side));
    }
    let sections = [
        ("memory", &difference.parts),
        ("kept by", &difference.holders),
        ("kept by (Go)", &difference.go_holders),
        ("class", &difference.types),
        ("usable size", &difference.sizes),
        ("leaked", &difference.unreachable),
        ("arena (resident; blocks in use)", &difference.arenas),
        ("known by place", &difference.places),
        ("may be waste", &difference.waste),
        ("keep free memory", &difference.pins),
        ("not written", &difference.not_written),
    ];
    for (title, section) in sections {
        write_section(&mut page, title, section, limit);
    }
    let unknown =
        sections.iter().filter_map(|(title, section)| Some((title, section.unknown.as_ref()?)));
    for (number, (title, why)) in unknown.enumerate() {
        if number == 0 {
            page.gap();
        }
        page.prose("UNKNOWN", Ink::Dim, &format!("{title}: {why}"));
    }
    page.finish()
}

fn named(side: &Side) -> String {
    let at = side.taken_ms.map(|ms| format!(", {}", date::utc(ms / 1000))).unwrap_or_default();
    format!("{}: process {} ({}){at}", side.name, side.pid, side.command)
}

fn write_section(page: &mut Page, title: &'static str, section: &Section, limit: usize) {
    let Some(first) = section.rows.first() else { return };
    page.gap();
    let steps = first.bytes.len();
    let has_blocks = section.rows.iter().any(|row| !row.blocks.is_empty());
    let mut columns = vec![Column::right("change")];
    if has_blocks {
        columns.push(Column::right("blocks"));
    }
    if steps > 2 {
        columns.push(Column::left("grew"));
    }
    columns.push(Column::right("before"));
    columns.push(Column::right("after"));
    columns.push(Column::left(title));
    let mut table = Table::new(columns);
    for row in section.rows.iter().take(limit) {
        table.row(cells(row, has_blocks));
    }
    table.write(page);
    let rest = section.rows.len().saturating_sub(limit) as u64 + section.more;
    if rest > 0 {
        page.line([Span::new(
            Ink::Dim,
            format!("and {} more that changed (--limit, --json)", count(rest)),
        )]);
    }
}

fn cells(row: &Row, has_blocks: bool) -> Vec<Cell> {
    let ink = match row.change.bytes {
        0 => Ink::Plain,
        1.. => Ink::More,
        _ => Ink::Less,
    };
    let sign = |change: i64| if change < 0 { "-" } else { "+" };
    let bytes_of = |index: Option<&u64>| index.map_or_else(String::new, |size| bytes(*size));
    let change = row.change.bytes;
    let mut cells: Vec<Cell> =
        vec![Span::new(ink, format!("{}{}", sign(change), bytes(change.unsigned_abs()))).into()];
    if has_blocks {
        let blocks = row.change.blocks;
        let told = blocks.map(|blocks| format!("{}{}", sign(blocks), count(blocks.unsigned_abs())));
        cells.push(told.unwrap_or_default().into());
    }
    if row.bytes.len() > 2 {
        let grew = match row.growth {
            Steadiness::EveryStep | Steadiness::EveryStepOrChance => "every step",
            Steadiness::SomeSteps => "some steps",
            Steadiness::No => "no",
        };
        cells.push(grew.into());
    }
    cells.push(bytes_of(row.bytes.first()).into());
    cells.push(bytes_of(row.bytes.last()).into());
    cells.push(Span::new(Ink::Bold, &row.name).into());
    cells
}

#[cfg(test)]
mod tests {
    use heapattach_census::types::ClassRow;
    use heapattach_moment::Moment;
    use heapattach_report::CensusReport;

    use super::*;

    #[test]
    fn two_sentences_are_followed_by_tables_of_what_changed() {
        let moment = |blocks: u64, second: u64| {
            let mut census = CensusReport::new(4711, "app".to_owned());
            census.moment.taken_ms = Some(second * 1000);
            census.memory.total.resident = blocks * 100;
            let (name, bytes) = ("Session".to_owned(), blocks * 100);
            census.classes = vec![ClassRow { name, bytes, blocks, ..ClassRow::default() }];
            Moment { version: String::new(), census }
        };
        let moments = [("a".to_owned(), moment(10, 100)), ("b".to_owned(), moment(50, 160))];
        let told = tell_difference(&Difference::of(&moments), 10, Page::new(Some(100), false));
        let expected = "\
VERDICT   Resident memory grew by 3.9 KiB in 60.0 s (3.9 KiB a minute), from 1000 B to 4.9 KiB
          Grew most: class Session (C++) +3.9 KiB in +40 blocks
1         a: process 4711 (app), 1970-01-01 00:01:40 UTC
2         b: process 4711 (app), 1970-01-01 00:02:40 UTC

  change  blocks  before    after  class
+3.9 KiB     +40  1000 B  4.9 KiB  Session (C++)

UNKNOWN   kept by: a: what holds the blocks was not looked for
UNKNOWN   leaked: a: unreachable blocks were not looked for
UNKNOWN   known by place: a: blocks were not named by what holds them
UNKNOWN   may be waste: a: the bytes of blocks were not looked at
UNKNOWN   keep free memory: a: it was not looked for which blocks keep memory
UNKNOWN   not written: a: pages that were never written were not looked for
";
        assert_eq!(told, expected);
    }
}
