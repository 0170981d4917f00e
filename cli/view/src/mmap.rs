//! Pages that the program mapped by itself. Every such call is recorded, so the numbers are exact
//! except for dropped records.

use serde::Serialize;

use super::{
    bar::bar,
    page::{Ink, Page, Span},
    sites::write_more,
    table::{Column, Table},
};
use heapattach_ledger::Metric;
use heapattach_profile::Estimate;
use heapattach_text::quantity;
use heapattach_verdict::{
    figure::percent,
    place::Place,
    subject::{Ask, Subject},
};

/// Columns of a bar.
const BAR: usize = 10;

/// Which places mapped pages.
#[derive(Clone, Debug, Serialize)]
pub struct Mmap {
    /// Bytes of pages mapped since the attach.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// The place with most of them still mapped comes first.
    pub sites: Vec<MmapRow>,
    /// Sites that are not listed.
    pub more: usize,
}

/// One place that mapped pages.
#[derive(Clone, Debug, Serialize)]
pub struct MmapRow {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// Bytes mapped.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
}

impl Mmap {
    /// Of a subject; mappings are not compared.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let ledger = subject.now;
        let ask = Ask { metric: Metric::Live, ..*ask };
        let mut sites = Subject::of(ledger).sites(&ask);
        sites.retain(|site| site.mapped > 0);
        sites.sort_by_key(|site| std::cmp::Reverse((site.mapped_live, site.mapped)));
        let more = sites.len().saturating_sub(ask.limit);
        sites.truncate(ask.limit);
        let rows = sites.into_iter().map(|site| MmapRow {
            words: site.place.words(),
            place: site.place,
            mapped: site.mapped,
            mapped_live: site.mapped_live,
        });
        let (mapped, mapped_live) = (ledger.total.mapped, ledger.total.mapped_live);
        Self { mapped, mapped_live, sites: rows.collect(), more }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let (mapped, live) = (quantity::bytes(self.mapped), quantity::bytes(self.mapped_live));
        let text = format!("{mapped} of pages mapped since the attach, {live} of them still are");
        page.prose("ALL", Ink::Plain, &text);
        if self.sites.is_empty() {
            return;
        }
        page.gap();
        let mut table = Table::new([
            Column::right("still mapped"),
            Column::right("part"),
            Column::drawing(),
            Column::right("mapped"),
            Column::left("who"),
        ]);
        for row in &self.sites {
            let part = row.mapped_live as f64 / self.mapped_live.max(1) as f64;
            table.row([
                quantity::bytes(row.mapped_live).into(),
                percent(Estimate { value: part, low: part, high: part }).into(),
                Span::new(Ink::More, bar(part, BAR)),
                quantity::bytes(row.mapped).into(),
                Span::new(Ink::Bold, &row.words),
            ]);
        }
        table.write(page);
        write_more(page, self.more, "places");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn pages_are_told_by_who_mapped_them() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Mmap::new(&Subject::of(&ledger), &Ask::default()).write(&mut page);
        let expected = "\
ALL       1.0 MiB of pages mapped since the attach, 512.0 KiB of them still are

still mapped   part               mapped  who
   512.0 KiB  100 %  ██████████  1.0 MiB  main (main.c:7)
";
        assert_eq!(page.finish(), expected);
    }
}
