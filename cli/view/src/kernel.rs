//! What makes the process ask the kernel for memory, or free some: mmap and mremap, munmap, brk, madvise. Every such
//! call of a hooked function is recorded, those of the allocator too: the numbers are exact except for dropped
//! records, and the code that allocated just then is told as having made the allocator ask.

use serde::Serialize;

use super::{
    page::{Ink, Page, Span},
    sites::write_more,
    table::{Column, Table},
};
use heapattach_ledger::{Calls, KernelCalls, Metric};
use heapattach_text::quantity;
use heapattach_verdict::{
    place::Place,
    subject::{Ask, Subject},
};

/// Which places ask.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// All of them.
    pub total: KernelCalls,
    /// Bytes of pages that were mapped since the attach and unmapped again.
    pub unmapped: u64,
    /// Whether that is known at all.
    #[serde(skip)]
    is_known: bool,
    /// The place that asked for most comes first.
    pub sites: Vec<KernelRow>,
    /// Sites that are not listed.
    pub more: usize,
}

/// One place that asks.
#[derive(Clone, Debug, Serialize)]
pub struct KernelRow {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// What it asked for.
    #[serde(flatten)]
    pub calls: KernelCalls,
}

impl Kernel {
    /// Of a subject; what was asked for is not compared.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let ledger = subject.now;
        let sites = Subject::of(ledger).sites(&Ask { limit: 0, metric: Metric::Live, ..*ask });
        let mut of_stack = vec![None; ledger.stacks.count()];
        for (site, at) in sites.iter().zip(0_usize..) {
            for &stack in &site.stacks {
                if let Some(place) = of_stack.get_mut(stack as usize) {
                    *place = Some(at);
                }
            }
        }
        let mut sums = vec![KernelCalls::default(); sites.len()];
        let mut total = KernelCalls::default();
        for (stack, calls) in &ledger.kernel {
            total.merge(calls);
            let at = of_stack.get(*stack as usize).copied().flatten();
            if let Some(sum) = at.and_then(|at| sums.get_mut(at)) {
                sum.merge(calls);
            }
        }
        let asking = sites.into_iter().zip(sums).filter(|(_, calls)| calls.calls() > 0);
        let mut rows: Vec<KernelRow> = asking
            .map(|(site, calls)| KernelRow { words: site.place.words(), place: site.place, calls })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.calls.asked(), row.calls.calls())));
        let more = rows.len().saturating_sub(ask.limit);
        rows.truncate(ask.limit);
        let unmapped = ledger.total.mapped.saturating_sub(ledger.total.mapped_live);
        let is_known = !ledger.kernel.is_empty() || ledger.total.mapped == 0;
        Self { total, unmapped, is_known, sites: rows, more }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let Self { total, .. } = self;
        if !self.is_known {
            let text = "what was asked of the kernel is known of whole sessions, not of parts, and of \
                        recordings of this version or a later one; --view mmap tells of mappings";
            return page.prose("ALL", Ink::Plain, text);
        }
        let bytes = quantity::bytes;
        let text = format!(
            "{} of pages mapped in {} calls, {} of pages unmapped; the heap of brk grew by {} in {} calls and \
             shrank by {}; {} freed by madvise in {}",
            bytes(total.mapped.bytes),
            quantity::count(total.mapped.calls),
            bytes(self.unmapped),
            bytes(total.grown.bytes),
            quantity::count(total.grown.calls),
            bytes(total.shrunk.bytes),
            bytes(total.discarded.bytes),
            quantity::count(total.discarded.calls),
        );
        page.prose("ALL", Ink::Plain, &text);
        if self.unmapped > 0 && total.unmapped == Calls::default() {
            page.prose("", Ink::Dim, "which places unmap is known with --all");
        }
        if self.sites.is_empty() {
            return;
        }
        page.gap();
        let mut table = Table::new([
            Column::right("requested"),
            Column::right("mmap"),
            Column::right("munmap").spare(),
            Column::right("brk"),
            Column::right("madvise"),
            Column::right("calls"),
            Column::left("who"),
        ]);
        let some = |number: u64| if number == 0 { String::new() } else { bytes(number) };
        for KernelRow { words, calls, .. } in &self.sites {
            table.row([
                bytes(calls.asked()).into(),
                some(calls.mapped.bytes).into(),
                some(calls.unmapped.bytes).into(),
                some(calls.grown.bytes).into(),
                some(calls.discarded.bytes).into(),
                quantity::count(calls.calls()).into(),
                Span::new(Ink::Bold, words),
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
    fn who_asks_the_kernel_is_told_with_what_for() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Kernel::new(&Subject::of(&ledger), &Ask::default()).write(&mut page);
        let expected = "\
ALL       1.0 MiB of pages mapped in 2 calls, 512.0 KiB of pages unmapped; the heap of brk grew by 396.0 KiB \
in 3 calls and shrank by 0 B; 4.0 KiB freed by madvise in 1

requested     mmap     munmap        brk  madvise  calls  who
  1.0 MiB  1.0 MiB  512.0 KiB             4.0 KiB      4  main (main.c:7)
396.0 KiB                      396.0 KiB               3  make_node (list.c:12)
";
        assert_eq!(page.finish(), expected);
    }
}
