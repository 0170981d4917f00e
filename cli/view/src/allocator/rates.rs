//! What is counted a second.

use heapattach_report::CountedReport;

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

use super::MANY;

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let Some(rates) = &one.rates else {
        page.prose("", Ink::Plain, "rates need two looks: --every 1s");
        return;
    };
    let mut table = Table::new([Column::right("a second"), Column::left("what")]);
    let mut rows: Vec<_> = rates.per_second.iter().collect();
    rows.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, rate) in rows.into_iter().take(MANY) {
        let told = match name.ends_with("total_wait_time") {
            true => format!("{:.3} ms", rate / 1e6),
            false => format!("{rate:.1}"),
        };
        table.row([told, name.clone()]);
    }
    table.write(page);
    let threads = one.statistics.total("nthreads");
    let waited: f64 = (rates.per_second.iter())
        .filter(|(name, _)| name.ends_with("total_wait_time"))
        .map(|(_, ns)| ns)
        .sum();
    if threads > 0 {
        let part = 100.0 * waited / 1e9 / threads as f64;
        let told =
            format!("{part:.2} % of the time of {threads} threads went into waits for locks");
        page.prose("", Ink::Plain, &told);
    }
}
