//! What each arena has.

use heapattach_report::{CountedReport, counters::AllocatorKind};
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

use super::MANY;

/// What is shown of which allocator: a title, the names that make its number, what to multiply these with, and
/// whether that is no bytes.
type Shown = (&'static str, &'static [&'static str], u64, bool);

const JEMALLOC: &[Shown] = &[
    ("threads", &["nthreads"], 1, true),
    ("allocated", &["small.allocated", "large.allocated"], 1, false),
    ("active", &["pactive"], 4096, false),
    ("dirty", &["pdirty"], 4096, false),
    ("muzzy", &["pmuzzy"], 4096, false),
    ("retained", &["retained"], 1, false),
    ("cached", &["tcache_bytes", "tcache_uncounted_bytes"], 1, false),
    ("books", &["base", "internal"], 1, false),
];
const GLIBC: &[Shown] = &[
    ("threads", &["nthreads"], 1, true),
    ("system", &["system.current"], 1, false),
    ("at most", &["system.max"], 1, false),
    ("free", &["rest.size"], 1, false),
    ("chunks", &["rest.count"], 1, true),
    ("fast", &["fast.size"], 1, false),
    ("top", &["top"], 1, false),
];

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let arenas = &one.statistics.arenas;
    let shown = match one.statistics.allocator {
        AllocatorKind::Jemalloc => JEMALLOC,
        AllocatorKind::Glibc => GLIBC,
        _ => return page.prose("", Ink::Plain, "it has no arenas"),
    };
    let mut columns = vec![Column::right("arena")];
    columns.extend(shown.iter().map(|(title, ..)| Column::right(title)));
    let mut table = Table::new(columns);
    for arena in arenas.iter().take(MANY) {
        let mut row = vec![arena.index.to_string()];
        for (_, names, by, is_count) in shown {
            let sum = names.iter().filter_map(|name| arena.numbers.get(name));
            let sum =
                sum.fold(0_u64, |sum, number| sum.saturating_add(*number)).saturating_mul(*by);
            row.push(if *is_count { count(sum) } else { bytes(sum) });
        }
        table.row(row);
    }
    table.write(page);
    if let Some(rest) = arenas.len().checked_sub(MANY).filter(|rest| *rest > 0) {
        page.line([Span::new(Ink::Dim, format!("and {rest} other arenas"))]);
    }
}
