//! Slabs and blocks by size class, those that lose most first.

use heapattach_report::CountedReport;
use heapattach_report::counters::Class;
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

use super::MANY;

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let mut bins = one.statistics.bins();
    if bins.is_empty() {
        return page.prose("", Ink::Plain, "it counts nothing by size class");
    }
    let of = |class: &Class, name: &str| class.numbers.get(name).copied().unwrap_or(0);
    let taken = |class: &Class| of(class, "curslabs").saturating_mul(of(class, "max_slab_size"));
    let used = |class: &Class| of(class, "curregs").saturating_mul(class.size);
    bins.retain(|class| {
        class.numbers.iter().any(|(name, number)| !name.starts_with("max_") && *number > 0)
    });
    bins.sort_by_key(|class| std::cmp::Reverse(taken(class).saturating_sub(used(class))));
    let columns = [
        Column::right("size"),
        Column::right("blocks"),
        Column::right("in use"),
        Column::right("in slabs"),
        Column::right("full"),
        Column::right("slabs"),
        Column::right("allocated"),
        Column::right("fills"),
        Column::right("flushes"),
        Column::right("lock waits"),
    ];
    let mut table = Table::new(columns);
    for class in bins.iter().take(MANY) {
        let full = match taken(class) {
            0 => String::new(),
            taken => format!("{:.0} %", 100.0 * used(class) as f64 / taken as f64),
        };
        table.row([
            format!("{} B", class.size),
            count(of(class, "curregs")),
            bytes(used(class)),
            bytes(taken(class)),
            full,
            count(of(class, "curslabs")),
            count(of(class, "nmalloc")),
            count(of(class, "nfills")),
            count(of(class, "nflushes")),
            count(class.mutex.get("num_wait").copied().unwrap_or(0)),
        ]);
    }
    table.write(page);
}
