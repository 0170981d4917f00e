//! Memory that is freed soon after it was allocated: work for the allocator, and nothing else.

use serde::Serialize;

use super::{
    page::{Ink, Page},
    sites::Sites,
};
use heapattach_ledger::Metric;
use heapattach_profile::Range;
use heapattach_verdict::{
    figure::{Unit, percent},
    subject::{Ask, Subject},
    weight::share,
};

/// What allocates it.
#[derive(Clone, Debug, Serialize)]
pub struct Temporary {
    /// Blocks that live shorter are meant.
    pub below_ms: u64,
    /// The part of all blocks that are.
    pub share_of_blocks: Range,
    /// The sites.
    #[serde(flatten)]
    pub sites: Sites,
}

impl Temporary {
    /// Of a subject. Unless bytes are asked for, blocks are counted: each costs the same work.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let measure = |metric| subject.now.total.measure(metric).count;
        let part = share(measure(Metric::Temporary), measure(Metric::Allocated));
        Self {
            below_ms: subject.now.about.temporary_ms,
            share_of_blocks: part.into(),
            sites: Sites::new(subject, &Ask { metric: Metric::Temporary, ..*ask }),
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let part = percent(self.share_of_blocks.into());
        let text = format!("{part} of all blocks lived for less than {} ms", self.below_ms);
        page.prose("TEMPORARY", Ink::Plain, &text);
        if self.sites.unit == Unit::Bytes {
            page.prose("", Ink::Dim, "in the order of bytes; in that of blocks: --unit blocks");
        }
        self.sites.write(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn the_part_of_blocks_that_are_temporary_comes_first() {
        let ledger = sample::ledger();
        let ask = Ask { unit: Unit::Blocks, ..Ask::default() };
        let mut page = Page::new(None, false);
        Temporary::new(&Subject::of(&ledger), &ask).write(&mut page);
        let text = page.finish();
        assert!(
            text.starts_with("TEMPORARY 91 % of all blocks lived for less than 1 ms\n"),
            "{text}"
        );
        let row = "   65 000  99.8 %  ██████████     70 000  work<int>(std::string const&)";
        assert!(text.contains(row), "{text}");
    }
}
