//! What the heap holds and what allocated it.

use heapattach_ledger::{Call, FrameReport, Ledger, Loss, Metric};
use heapattach_profile::{Amount, Flow, Range};
use heapattach_verdict::subject::{Ask, Site, Subject};
use serde::{Deserialize, Serialize};

/// Sites in a report.
const SITES: usize = 1000;

/// The blocks of the heap, since the attach.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HeapReport {
    /// Mean bytes between samples; 1: everything is recorded.
    pub every: u64,
    /// Allocated.
    pub allocated: Amount,
    /// Of those, freed.
    pub freed: Amount,
    /// Of those, in use at the end.
    pub live: Amount,
    /// The most that was in use at one time.
    pub peak_bytes: Range,
    /// Bytes of pages that were mapped. Every call is recorded: exact unless records were dropped.
    pub mapped: u64,
    /// Bytes of these pages that are still mapped, as exact.
    pub mapped_live: u64,
    /// Records behind all this.
    pub records: u64,
    /// The records that were dropped, and what else is missing.
    pub lost: Loss,
    /// The places that allocated, those that hold most first.
    pub sites: Vec<SiteReport>,
    /// Sites that are not listed.
    pub more_sites: usize,
}

/// One place that allocates memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SiteReport {
    /// The frame that caused the allocations, in words.
    pub place: String,
    /// Which of `frames` that is: those before it are allocators and the like.
    pub cause: usize,
    /// What it has in use.
    pub live: Amount,
    /// What it allocated since the attach.
    pub allocated: Amount,
    /// Freed of that.
    #[serde(default)]
    pub freed: Amount,
    /// Bytes of pages it mapped.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// Samples of blocks it asked for.
    pub samples: u64,
    /// The calls that led to it, innermost first, of one of its stacks.
    pub frames: Vec<FrameReport>,
}

impl HeapReport {
    /// Of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        // Callers are told as frames.
        let ask = Ask { limit: 0, ..Ask::default() };
        let mut sites = Subject::of(ledger).sites(&ask);
        sites.retain(|site| site.has_anything());
        let total = &ledger.total;
        let amount = |flow| Amount::from(total.heap.measure(flow));
        Self {
            every: ledger.about.every,
            allocated: amount(Flow::Allocated),
            freed: amount(Flow::Freed),
            live: amount(Flow::Live),
            peak_bytes: ledger.peak.into(),
            mapped: total.mapped,
            mapped_live: total.mapped_live,
            records: total.heap.samples(Flow::Allocated),
            lost: ledger.about.loss,
            more_sites: sites.len().saturating_sub(SITES),
            sites: sites.iter().take(SITES).map(|site| SiteReport::of(site, ledger)).collect(),
        }
    }
}

impl SiteReport {
    fn of(site: &Site, ledger: &Ledger) -> Self {
        let amount = |metric| Amount::from(site.weights[metric as usize].now.measure());
        let stack = site.stack().and_then(|stack| ledger.stacks.get(stack));
        Self {
            place: site.place.words(),
            cause: stack.map_or(0, |stack| stack.cause as usize),
            live: amount(Metric::Live),
            allocated: amount(Metric::Allocated),
            freed: amount(Metric::Freed),
            mapped: site.mapped,
            mapped_live: site.mapped_live,
            samples: site.weights[Metric::Allocated as usize].now.records(),
            frames: site.stack().map(|stack| frames(ledger, stack)).unwrap_or_default(),
        }
    }
}

/// The calls of a stack, the innermost first.
pub(super) fn frames(ledger: &Ledger, stack: u32) -> Vec<FrameReport> {
    let frame = |call: Call<'_>| FrameReport {
        module: call.module.path.clone(),
        // A location is where the call returns to; the call itself is before that.
        offset: call.location.offset.saturating_sub(1),
        function: call.function.is_named.then(|| call.function.name.clone()),
        file: (!call.function.file.is_empty()).then(|| call.function.file.clone()),
        line: call.line,
        inlined: call.is_inlined,
    };
    ledger.calls(stack).map(frame).collect()
}
