//! The figures that matter.

use heapattach_report::CountedReport;
use heapattach_text::quantity::bytes;

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

use super::figure;

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let mut table = Table::new([Column::right("now"), Column::left("figure")]);
    for (name, number) in &one.statistics.stats {
        table.row([figure::told(name, *number), (*name).to_owned()]);
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
