//! Pages that the program mapped by itself. Every such call is recorded, so the numbers are exact
//! except for dropped records.

use serde::Serialize;

use super::{
    bar::bar,
    page::{Ink, Page, Span},
    sites::write_more,
    table::{Column, Table},
};
use heapattach_profile::Estimate;
use heapattach_text::quantity;
use heapattach_verdict::{
    figure::percent,
    place::Place,
    subject::{Ask, Subject},
    summary::{MappedSite, mapped_sites},
};

/// Sites that are told with their callers.
const WITH_CALLERS: usize = 5;
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
    /// What mapped it when this place called it: an allocator, a library, a runtime, or `stacks of threads`.
    /// The place is the trigger then, and not the cause; left out where the place itself did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Who called, innermost first.
    pub callers: Vec<String>,
    /// Bytes mapped.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// Of these what was resident at the end, as far as the kernel told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// What is unusual of these pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

impl Mmap {
    /// Of a subject; mappings are not compared.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let ledger = subject.now;
        let mut sites = mapped_sites(ledger);
        let more = sites.len().saturating_sub(ask.limit);
        sites.truncate(ask.limit);
        let rows = sites.into_iter().map(|site| {
            let MappedSite { place, at, by, callers, mapped, live, resident, kinds, .. } = site;
            let (words, mapped_live) = (place, live);
            MmapRow { words, place: at, by, callers, mapped, mapped_live, resident, kinds }
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
            Column::right("resident").spare(),
            Column::left("who"),
        ]);
        for (number, row) in self.sites.iter().enumerate() {
            let part = row.mapped_live as f64 / self.mapped_live.max(1) as f64;
            table.row([
                quantity::bytes(row.mapped_live).into(),
                percent(Estimate { value: part, low: part, high: part }).into(),
                Span::new(Ink::More, bar(part, BAR)),
                quantity::bytes(row.mapped).into(),
                row.resident.map_or("-".to_owned(), quantity::bytes).into(),
                Span::new(Ink::Bold, row.who()),
            ]);
            if number < WITH_CALLERS && !row.callers.is_empty() {
                table.callers(row.callers.iter().cloned());
            }
        }
        table.write(page);
        write_more(page, self.more, "places");
    }
}

impl MmapRow {
    /// Who mapped it, for whom, and what is unusual of it.
    fn who(&self) -> String {
        let by = if self.by.is_empty() { String::new() } else { format!("{}, for ", self.by) };
        let kinds = self.kinds.join(", ");
        let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
        format!("{by}{}{kinds}", self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{PageKinds, Pages, sample};

    #[test]
    fn what_the_pages_are_is_told_with_what_is_resident() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| stack.cause = 0);
        let mut pages = PageKinds { address: 0x7000_0000_1234, ..PageKinds::default() };
        let guard = Pages { mapped: 4096, resident: 0 };
        pages.kinds.insert("guard pages".to_owned(), guard);
        ledger.about.pages = vec![pages];
        let mmap = Mmap::new(&Subject::of(&ledger), &Ask::default());
        assert_eq!(mmap.sites[0].resident, Some(0));
        assert_eq!(mmap.sites[0].who(), "malloc (malloc.c:3000) (never touched, guard pages)");
    }

    #[test]
    fn pages_are_told_by_who_mapped_them() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Mmap::new(&Subject::of(&ledger), &Ask::default()).write(&mut page);
        let expected = "\
ALL       1.0 MiB of pages mapped since the attach, 512.0 KiB of them still are

still mapped   part               mapped  resident  who
   512.0 KiB  100 %  ██████████  1.0 MiB         -  libc.so.6, for main (main.c:7)
";
        assert_eq!(page.finish(), expected);
    }
}
