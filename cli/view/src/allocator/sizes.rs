//! Slabs and blocks by size class, those that lose most first.

use heapattach_report::{
    CountedReport,
    counters::{AllocatorKind, Class},
};
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

use super::MANY;

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let mut bins = one.statistics.bins();
    bins.retain(|class| {
        class.numbers.iter().any(|(name, number)| *number > 0 && !SAME.contains(name))
    });
    match (bins.is_empty(), one.statistics.allocator) {
        (true, _) => page.prose("", Ink::Plain, "it counts nothing by size class"),
        (false, AllocatorKind::Jemalloc) => write_slabs(page, bins),
        (false, _) => write_plain(page, &bins),
    }
}

/// What a class has even if it has no blocks.
const SAME: [&str; 3] = ["nregs", "nshards", "slab_size"];

fn of(class: &Class, name: &str) -> u64 {
    class.numbers.get(name).copied().unwrap_or(0)
}

/// Of jemalloc: slabs, those that lose most first.
fn write_slabs(page: &mut Page, mut bins: Vec<Class>) {
    let taken = |class: &Class| of(class, "curslabs").saturating_mul(of(class, "slab_size"));
    let used = |class: &Class| of(class, "curregs").saturating_mul(class.size);
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

/// Of others: numbers as they are, those of most bytes first.
fn write_plain(page: &mut Page, bins: &[Class]) {
    let mut names: Vec<&str> =
        bins.iter().flat_map(|class| class.numbers.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let mut rows: Vec<_> = bins.iter().collect();
    let most = |class: &&Class| class.numbers.values().copied().max().unwrap_or(0);
    rows.sort_by_key(|class| std::cmp::Reverse(most(class).saturating_mul(class.size)));
    let mut columns = vec![Column::right("size")];
    columns.extend((0..names.len()).map(|_| Column::right("")));
    let mut table = Table::new(columns);
    table
        .row([vec!["".to_owned()], names.iter().map(|name| (*name).to_owned()).collect()].concat());
    for class in rows.into_iter().take(MANY) {
        let numbers = names.iter().map(|name| count(of(class, name)));
        table.row([vec![format!("{} B", class.size)], numbers.collect()].concat());
    }
    table.write(page);
}
