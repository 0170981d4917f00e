//! Who holds the blocks, the largest holders first; and paths to blocks.

use heapattach_report::{
    Amount, CensusReport, HolderRow, HoldersReport, PathReport, SuspectReport,
};
use heapattach_text::quantity::{bytes, count, counted};

use super::MANY;
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

/// What is nested deeper is in JSON alone.
const DEEPEST: usize = 12;
/// Rows below one row, unless all are wanted.
const BELOW: usize = 3;
/// Names of a path that a suspect is told with.
const NAMES: usize = 6;
/// So many bytes that are leaked are named in any case.
const LEAST_LEAKED: u64 = 1 << 20;

/// How much of the tree is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The largest roots, and below each what is largest.
    Largest,
    /// Everything that is told, top down.
    Tree,
}

/// What is named first on the first screen.
pub(super) fn write_suspects(page: &mut Page, report: &CensusReport) {
    let Some(found) = &report.holders else { return };
    if let Some(text) = leaked(report, found) {
        page.prose("SUSPECT", Ink::Warning, &text);
    }
    for suspect in &found.suspects {
        page.prose("SUSPECT", Ink::Warning, &told(found, suspect));
    }
}

/// Blocks that nothing leads to, where they are a tenth of all or more than a little.
fn leaked(report: &CensusReport, found: &HoldersReport) -> Option<String> {
    let lost = report.unreachable.as_ref().filter(|lost| lost.error.is_none())?;
    let all = lost.direct.and(lost.indirect);
    let is_much = all.bytes > found.blocks.bytes / 10 || all.bytes >= LEAST_LEAKED;
    let group = lost.groups.first().filter(|_| is_much)?;
    let class =
        group.class.clone().unwrap_or_else(|| "blocks that do not say their class".to_owned());
    let with = match group.held.blocks {
        0 => String::new(),
        _ => format!(
            ", leading to {} in {} more blocks",
            bytes(group.held.bytes),
            count(group.held.blocks)
        ),
    };
    Some(format!(
        "{} are leaked: no pointer leads to them. The largest group: {}, {class} of {}{with}; see --view \
         unreachable",
        amount(&all),
        amount(&group.own),
        bytes(group.size),
    ))
}

fn told(found: &HoldersReport, suspect: &SuspectReport) -> String {
    let row =
        |number: u64| usize::try_from(number).ok().and_then(|number| found.holders.get(number));
    let Some(holder) = row(suspect.holder) else { return String::new() };
    let names = &suspect.path;
    let path = match names.len() > NAMES {
        true => format!("{} > ...", names[..NAMES].join(" > ")),
        false => names.join(" > "),
    };
    let mostly = match suspect.of_these.blocks {
        1 => format!("one block of {}", bytes(suspect.of_these.bytes)),
        _ => format!("{}: {}", suspect.mostly, amount(&suspect.of_these)),
    };
    let what = holder.root.map_or_else(
        || ", kept by several roots,".to_owned(),
        |root| format!(" ({})", root.words().0),
    );
    format!(
        "{}{what} retains {}, {:.0} % of all that is reached. It is mostly {mostly}; path: {path}",
        holder.name,
        amount(&holder.retained),
        suspect.percent,
    )
}

fn amount(of: &Amount) -> String {
    format!("{} in {}", bytes(of.bytes), counted(of.blocks, "block"))
}

pub(super) fn write_holders(page: &mut Page, report: &CensusReport, extent: Extent) {
    let Some(found) = &report.holders else { return };
    if let Some(error) = &found.error {
        return page.prose("UNKNOWN", Ink::Warning, &format!("holders are not told: {error}"));
    }
    if let Some(doubt) = &found.doubt {
        page.prose("DOUBT", Ink::Warning, doubt);
    }
    write_suspects(page, report);
    if let Some(what) = &found.not_found {
        return page.prose("NOT FOUND", Ink::Warning, what);
    }
    if !found.paths.is_empty() {
        page.gap();
        return write_paths(page, &found.paths);
    }
    page.gap();
    let columns = [
        Column::right("retained"),
        Column::right("blocks"),
        Column::right("own"),
        Column::left("holder"),
    ];
    let mut table = Table::new(columns);
    let (mut left, below) = match extent {
        Extent::Largest => (MANY * 2, BELOW),
        Extent::Tree => (found.holders.len(), found.holders.len()),
    };
    write_below(found, None, (0, below), &mut left, &mut table);
    table.write(page);
    let unreached = Amount {
        bytes: found.blocks.bytes.saturating_sub(found.reached.bytes),
        blocks: found.blocks.blocks.saturating_sub(found.reached.blocks),
    };
    let more = match report.go.is_some() {
        true => "garbage that was not collected yet; --view go: field by field",
        false => "--view unreachable",
    };
    let (reached, unreached) = (amount(&found.reached), amount(&unreached));
    let text = format!("a root leads to {reached}, and to none of {unreached} ({more})");
    page.line([Span::new(Ink::Dim, text)]);
}

fn write_below(
    found: &HoldersReport,
    before: Option<u64>,
    (depth, below): (usize, usize),
    left: &mut usize,
    table: &mut Table,
) {
    let all = (0..).zip(&found.holders).filter(|(_, row)| row.before == before);
    let mut all: Vec<(u64, &HolderRow)> = all.collect();
    all.sort_by_key(|(_, row)| std::cmp::Reverse(row.retained.bytes));
    let room = if before.is_none() { all.len() } else { below };
    for (number, row) in all.into_iter().take(room) {
        let is_small = row.retained.bytes < found.reached.bytes / 100 && depth > 0;
        if *left == 0 || depth > DEEPEST || (is_small && below == BELOW) {
            return;
        }
        *left -= 1;
        let kind = row.root.map_or(String::new(), |root| format!(" ({})", root.words().0));
        let name = format!("{:indent$}{}{kind}", "", row.name, indent = depth * 2);
        let own = if row.own.blocks == 0 { String::new() } else { bytes(row.own.bytes) };
        table.row([bytes(row.retained.bytes), count(row.retained.blocks), own, name]);
        write_below(found, Some(number), (depth + 1, below), left, table);
    }
}

fn write_paths(page: &mut Page, paths: &[PathReport]) {
    for path in paths {
        page.line([Span::new(Ink::Bold, amount(&path.amount))]);
        let last = path.steps.len().saturating_sub(1);
        for (index, step) in path.steps.iter().enumerate() {
            let many =
                if step.blocks > 1 { format!(" x {}", count(step.blocks)) } else { String::new() };
            let offset = step.offset.filter(|_| index != last);
            let offset = offset.map_or(String::new(), |offset| format!("+{offset:#x}"));
            let text = format!("{:indent$}{}{offset}{many}", "", step.name, indent = 2 + index * 2);
            page.line([text.into()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use heapattach_report::{PathStep, RootKind};

    use super::*;

    fn report() -> CensusReport {
        let amount = |bytes, blocks| Amount { bytes, blocks };
        let row = |before, root, name: &str, own, retained| HolderRow {
            before,
            root,
            name: name.to_owned(),
            own,
            retained,
        };
        let mut report = CensusReport::new(4711, "app".to_owned());
        report.holders = Some(HoldersReport {
            blocks: amount(5 << 20, 1100),
            reached: amount(4 << 20, 1001),
            holders: vec![
                row(None, Some(RootKind::Globals), "cache", amount(0, 0), amount(4 << 20, 1000)),
                row(Some(0), None, "Node", amount(1 << 20, 500), amount(4 << 20, 1000)),
                row(Some(1), None, "Session", amount(3 << 20, 500), amount(3 << 20, 500)),
            ],
            suspects: vec![SuspectReport {
                percent: 99.9,
                path: vec!["cache".to_owned(), "Node".to_owned()],
                mostly: "Session".to_owned(),
                of_these: amount(3 << 20, 500),
                ..SuspectReport::default()
            }],
            ..HoldersReport::default()
        });
        report
    }

    fn text(report: &CensusReport) -> String {
        let mut page = Page::new(Some(200), false);
        write_holders(&mut page, report, Extent::Largest);
        page.finish()
    }

    #[test]
    fn a_suspect_is_told_in_two_sentences_and_the_tree_below_it() {
        let text = text(&report());
        let expected = "cache (globals) retains 4.0 MiB in 1 000 blocks, 100 % of all that is reached. It is \
                        mostly Session: 3.0 MiB in 500 blocks; path: cache > Node";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("    Session"), "{text}");
        assert!(text.contains("to none of 1.0 MiB in 99 blocks"), "{text}");
    }

    #[test]
    fn a_path_tells_where_in_each_block_the_next_pointer_lies() {
        let mut report = report();
        let step = |name: &str, blocks, offset| PathStep { name: name.to_owned(), blocks, offset };
        if let Some(found) = &mut report.holders {
            let steps =
                vec![step("cache", 0, None), step("Conn", 3, Some(0x98)), step("Buf", 1, None)];
            found.paths = vec![PathReport { steps, amount: Amount { bytes: 64, blocks: 1 } }];
        }
        assert!(text(&report).contains("Conn+0x98 x 3\n"), "{}", text(&report));
    }
}
