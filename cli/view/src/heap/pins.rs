//! Which blocks keep memory that is mostly free.

use heapattach_report::{CensusReport, Pins};
use heapattach_text::quantity::{bytes, count};

use super::MANY;
use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

pub(super) fn write_pins(page: &mut Page, report: &CensusReport) {
    let Some(pins) = &report.pins else {
        let only = if report.sites.is_some() { "but for those of the session" } else { "" };
        let text = format!("it was not looked for which blocks keep memory {only}");
        return page.line([text.trim_end().into()]);
    };
    write_sums(page, pins);
    if pins.rows.is_empty() {
        return;
    }
    page.gap();
    let columns = [
        Column::right("keep free"),
        Column::right("alone"),
        Column::right("in use"),
        Column::right("blocks"),
        Column::right("sparse"),
        Column::right("size"),
        Column::left("class"),
    ];
    let mut table = Table::new(columns);
    for row in pins.rows.iter().take(MANY) {
        let class = row.class.clone().unwrap_or_default();
        table.row([
            bytes(row.pinned),
            bytes(row.alone),
            bytes(row.bytes),
            count(row.blocks),
            bytes(row.sparse),
            bytes(row.size),
            class,
        ]);
    }
    table.write(page);
    let text = "A page, slab or span goes back to the kernel when no block in use is left in it. Keep free: what is \
                free there, the same part for each of its blocks. Alone: pages, slabs and spans with no other \
                blocks. Sparse: those of which blocks in use take less than a tenth; one with blocks of several rows \
                counts for each.";
    page.prose("", Ink::Dim, text);
}

fn write_sums(page: &mut Page, pins: &Pins) {
    let part = |sum: u64| sum as f64 * 100.0 / pins.resident.max(1) as f64;
    let text = format!(
        "{} of blocks in use lie on {} of pages, slabs and spans in memory: {} there are free ({:.0} %) and cannot \
         go back to the kernel; side by side the blocks would need {}",
        bytes(pins.live),
        bytes(pins.resident),
        bytes(pins.free()),
        part(pins.free()),
        bytes(pins.packed)
    );
    page.prose("KEPT", Ink::Bold, &text);
    if pins.sparse > 0 {
        let text = format!(
            "{} of blocks in use keep {} of which they take less than a tenth",
            bytes(pins.sparse_live),
            bytes(pins.sparse)
        );
        page.prose("SPARSE", Ink::Plain, &text);
    }
    if pins.empty > 0 {
        let text = format!(
            "{} of that are whole pages of slabs and spans without a block in use: jemalloc's go back \
             by heapattach allocator --apply purge",
            bytes(pins.empty)
        );
        page.prose("EMPTY", Ink::Plain, &text);
    }
}
