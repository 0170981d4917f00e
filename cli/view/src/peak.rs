//! What memory was made of when most of it was in use.

use std::time::Duration;

use serde::Serialize;

use super::{
    page::{Ink, Page},
    sites::Sites,
};
use heapattach_ledger::Metric;
use heapattach_profile::Range;
use heapattach_verdict::{
    figure::{bytes, clock},
    subject::{Ask, Subject},
};

/// The most that was in use.
#[derive(Clone, Debug, Serialize)]
pub struct Peak {
    /// The bytes in use at the peak.
    pub peak: Range,
    /// When about: the noted moment with most bytes in use.
    pub near_ms: Option<u64>,
    /// The places that had allocated it.
    #[serde(flatten)]
    pub sites: Sites,
}

impl Peak {
    /// Of a subject.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let moments = subject.now.moments.iter();
        let highest = moments.max_by(|a, b| a.live.total_cmp(&b.live));
        Self {
            peak: subject.now.peak.into(),
            near_ms: highest.map(|moment| moment.at_ms),
            sites: Sites::new(subject, &Ask { metric: Metric::Peak, ..*ask }),
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let when = self.near_ms.map(|at| clock(Duration::from_millis(at)));
        let when = when.map_or(String::new(), |at| format!(", about {at} after the attach"));
        let text = format!("at most {} were in use at once{when}", bytes(self.peak.into()));
        page.prose("PEAK", Ink::Plain, &text);
        self.sites.write(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn the_peak_is_told_with_its_moment_and_what_it_was_made_of() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Peak::new(&Subject::of(&ledger), &Ask::default()).write(&mut page);
        let text = page.finish();
        let first =
            "PEAK      at most 115.8 KiB were in use at once, about 20.0 s after the attach\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("   75.0 KiB   65 %  ██████▌   93.8 KiB  make_node"), "{text}");
    }
}
