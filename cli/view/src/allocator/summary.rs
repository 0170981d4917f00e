//! The figures that matter.

use heapattach_report::CountedReport;
use heapattach_text::quantity::{bytes, count};

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

/// Names of numbers that are no bytes.
const COUNTS: [&str; 15] = [
    "metadata_thp",
    "narenas",
    "nthreads",
    "n_mmaps",
    "max_n_mmaps",
    "spans",
    "thread_heaps",
    "free_chunks",
    "fast_chunks",
    "groups",
    "heaps",
    "areas",
    "slots",
    "blocks",
    "page_count",
];

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let mut table = Table::new([Column::right("now"), Column::left("figure")]);
    for (name, number) in &one.statistics.stats {
        let is_count =
            COUNTS.contains(name) || name.ends_with("_count") || name.ends_with(".count");
        let told = if is_count { count(*number) } else { bytes(*number) };
        table.row([told, (*name).to_owned()]);
    }
    table.write(page);
    let total = |name: &str| one.statistics.total(name);
    let (active, allocated) = (total("active"), total("allocated"));
    let gaps = one.statistics.slab_gaps().iter().map(|(gap, ..)| *gap).sum();
    if allocated > 0 && active > allocated {
        let ratio = active as f64 / allocated as f64;
        let told = format!("active/allocated {ratio:.2}: {} lie in gaps of slabs", bytes(gaps));
        page.prose("", Ink::Plain, &told);
    }
}
