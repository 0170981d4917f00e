//! What of the blocks in use a process did not write to for a while: `heap --cold TIME`.
//!
//! ```text
//! short stop: userfaultfd, handed over -> pages are protected from outside, the process goes on -> TIME
//! -> which pages kept their protection; the descriptor is closed -> the moment, as always
//! ```

use std::{
    cmp::Reverse,
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_census::{Moment, Walker};
use heapattach_injector::{
    moment::{WatchError, watch_writes},
    target::Target,
};
use heapattach_process::page_writes::PageWrites;
use heapattach_report::{ColdReport, ColdRow, ColdSum, Status, micros};
use heapattach_text::error_chain::with_causes;

use super::{
    Failed, HeapFilter, failed,
    known::{Inner, Known},
    progress::Progress,
};

/// Rows that are told.
const ROWS: usize = 1000;

/// Pages that are watched.
pub(super) struct Watching {
    writes: PageWrites,
    began: Instant,
    stopped: Duration,
}

/// What they told.
#[derive(Debug)]
pub(super) struct Cold {
    /// Pages that were not written, ascending.
    pages: Vec<Range<u64>>,
    watched: u64,
    time: Duration,
    /// Microseconds that the process was stopped for it.
    pub(super) stopped_us: f64,
}

impl Watching {
    /// Begins.
    pub(super) fn begin(target: &Target) -> Result<Self, Failed> {
        let (writes, stopped) = watch(target)?;
        Ok(Self { writes, began: Instant::now(), stopped })
    }

    /// Ends; nothing is watched any more.
    pub(super) fn end(self) -> Result<Cold, Failed> {
        let time = self.began.elapsed();
        let pages = self.writes.unwritten().map_err(|error| {
            let why = format!(
                "what was written cannot be told, since the process ended or began another program meanwhile: {error} \
                 (target: untouched)"
            );
            (Status::Failed, why)
        })?;
        let watched = self.writes.protected();
        Ok(Cold { pages, watched, time, stopped_us: micros(self.stopped) })
    }
}

/// Has it watched what is written; how long the process was stopped for it.
pub(super) fn watch(target: &Target) -> Result<(PageWrites, Duration), Failed> {
    let (watched, stopped) = watch_writes(target).map_err(|left| {
        (Status::Left, format!("{} (target: {})", left.error, left.what.join("; ")))
    })?;
    let writes = watched.map_err(|error| {
        let status = match error {
            WatchError::Before(error) => return failed(error),
            WatchError::HasItsOwn
            | WatchError::Seccomp
            | WatchError::VforkChild
            | WatchError::Carrier(_)
            | WatchError::Writes(_) => Status::Refused,
            WatchError::NoCarrier
            | WatchError::Memory(_)
            | WatchError::Home(_)
            | WatchError::Take(_) => Status::Failed,
        };
        let why = with_causes(&error);
        (status, format!("writes cannot be watched: {why} (target: untouched)"))
    })?;
    Ok((writes, stopped))
}

impl Cold {
    /// After pages were watched for so long.
    pub(super) fn after(
        target: &Target,
        time: Duration,
        progress: &Progress,
    ) -> Result<Self, Failed> {
        let watching = Watching::begin(target)?;
        if !progress.wait(time) {
            let why = "the command ended while pages were watched (target: untouched)";
            return Err((Status::Interrupted, why.to_owned()));
        }
        watching.end()
    }

    /// The blocks of a moment; `known` has their classes.
    pub(super) fn report(
        &self,
        known: Option<&Known>,
        (moment, walkers): (&Moment<'_>, &[&dyn Walker]),
        filter: &HeapFilter,
    ) -> ColdReport {
        match known {
            Some(known) => self.sum(known, moment, filter),
            None => match Known::blocks(moment, walkers, Inner::Blocks) {
                Ok((known, _)) => self.sum(&known, moment, filter),
                Err(error) => ColdReport { error: Some(error), ..self.empty() },
            },
        }
    }

    fn empty(&self) -> ColdReport {
        ColdReport {
            watched_ms: u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX),
            watched: self.watched,
            written: self.watched.saturating_sub(self.pages.iter().map(length).sum()),
            ..ColdReport::default()
        }
    }

    fn sum(&self, known: &Known, moment: &Moment<'_>, filter: &HeapFilter) -> ColdReport {
        let mut report = self.empty();
        let mut sums = vec![ColdSum::default(); known.groups.len()];
        for number in 0..u32::try_from(known.blocks.len()).unwrap_or(u32::MAX) {
            let block = known.blocks.get(number);
            let class = known.class(block).map(|(_, name)| name);
            if !filter.counts(class, block.size) {
                continue;
            }
            report.in_use = report.in_use.saturating_add(block.size);
            let cold = self.overlap(block.at..block.at.saturating_add(block.size));
            if cold > 0 {
                if let Some(sum) = sums.get_mut(block.stack as usize) {
                    sum.add(block.size, cold);
                }
            } else if !moment.region(block.at).is_some_and(|region| region.is_private_memory()) {
                report.not_watched = report.not_watched.saturating_add(block.size);
            }
        }
        let named = known.groups.iter().zip(sums).filter(|(_, sum)| sum.blocks > 0);
        let rows = named.map(|((class, size), sum)| {
            let class = class.and_then(|class| known.names.get(usize::try_from(class.0).ok()?));
            ColdRow { class: class.cloned(), size: *size, sum }
        });
        report.rows = rows.collect();
        for row in &report.rows {
            report.sum.join(&row.sum);
        }
        report.rows.sort_by(|a, b| {
            let key = |row: &ColdRow| (Reverse(row.sum.cold), row.size);
            key(a).cmp(&key(b)).then_with(|| a.class.cmp(&b.class))
        });
        report.rows.truncate(ROWS);
        report
    }

    /// Bytes of a range on pages that were not written.
    pub(super) fn overlap(&self, range: Range<u64>) -> u64 {
        let first = self.pages.partition_point(|page| page.end <= range.start);
        let pages = self.pages[first..].iter().take_while(|page| page.start < range.end);
        pages.map(|page| page.end.min(range.end) - page.start.max(range.start)).sum()
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_pages_that_were_not_written_is_counted_to_the_byte() {
        let pages = vec![0x1000..0x3000, 0x5000..0x6000];
        let cold = Cold { pages, watched: 0x8000, time: Duration::ZERO, stopped_us: 0.0 };
        assert_eq!(cold.overlap(0x0..0x1000), 0);
        assert_eq!(cold.overlap(0xff0..0x1010), 0x10);
        assert_eq!(cold.overlap(0x2ff0..0x5010), 0x20);
        assert_eq!(cold.overlap(0x0..0x10000), 0x3000);
        assert_eq!(cold.overlap(0x1100..0x1200), 0x100);
        assert_eq!(cold.empty().written, 0x5000);
    }
}
