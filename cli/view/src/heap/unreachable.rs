//! Blocks that no pointer leads to.

use heapattach_report::{Amount, CensusReport};
use heapattach_text::quantity::{bytes, count, counted};

use super::{MANY, core_file::BLIND};
use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

pub(super) fn write_unreachable(page: &mut Page, report: &CensusReport) {
    let Some(found) = &report.unreachable else { return };
    if let Some(error) = &found.error {
        let text = format!("unreachable blocks are not told: {error}");
        return page.prose("UNKNOWN", Ink::Warning, &text);
    }
    let amount = |of: &Amount| format!("{} in {}", bytes(of.bytes), counted(of.blocks, "block"));
    let text = format!(
        "{}; {} reachable only through these; possible: {}",
        amount(&found.direct),
        amount(&found.indirect),
        amount(&found.possible)
    );
    page.prose("LEAKED", Ink::Bold, &text);
    if report.core.is_some() {
        page.prose("", Ink::Plain, BLIND);
    }
    if found.groups.is_empty() {
        return;
    }
    let columns = [
        Column::right("leaked"),
        Column::right("blocks"),
        Column::right("with them"),
        Column::right("size"),
        Column::left("kind"),
        Column::left("class"),
    ];
    let mut table = Table::new(columns);
    for group in found.groups.iter().take(MANY) {
        table.row([
            bytes(group.own.bytes),
            count(group.own.blocks),
            bytes(group.held.bytes),
            bytes(group.size),
            group.kind.name().to_owned(),
            group.class.clone().unwrap_or_default(),
        ]);
    }
    table.write(page);
}
