//! What the heap holds and who asked for it, as data.

use std::{collections::HashMap, rc::Rc};

use heapattach_injector::{
    addr::RemoteAddr, counts::Lost, event::StackId, places, python, session::Session, stacks::Stack,
};
use serde::{Deserialize, Serialize};

use crate::{
    hidden::{Hidden, Part, Search},
    ledger::Loss,
    profile::{Estimate, Flow, Measure, Row},
    recorder::Recorder,
    symbols::{Frame, Symbols},
};

/// Sites in a report.
const SITES: usize = 1000;

/// A number with its 95 % interval; where everything is recorded, all three are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The number.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Bytes and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes asked for.
    pub bytes: Range,
    /// Blocks.
    pub blocks: Range,
}

/// The blocks of the heap, since the attach.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HeapReport {
    /// Mean bytes between samples; 1: everything is recorded.
    pub every: u64,
    /// Handed out.
    pub allocated: Amount,
    /// Of those, given back.
    pub freed: Amount,
    /// Of those, held at the end.
    pub live: Amount,
    /// The most that was held at once.
    pub peak_bytes: Range,
    /// Bytes of pages that were mapped, and of those the bytes still mapped: every call is recorded,
    /// so they are exact unless something was lost.
    pub mapped: u64,
    /// See above.
    pub mapped_live: u64,
    /// Records behind all this.
    pub records: u64,
    /// What is missing.
    pub lost: Loss,
    /// Who asked, those that hold most first.
    pub sites: Vec<SiteReport>,
    /// Sites that are not listed.
    pub more_sites: usize,
}

/// One place that asks for memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SiteReport {
    /// The frame that caused the allocations, in words.
    pub place: String,
    /// Which of `frames` that is: those before it are allocators and the like.
    pub cause: usize,
    /// What it holds.
    pub live: Amount,
    /// What it asked for since the attach.
    pub allocated: Amount,
    /// Bytes of pages it mapped, and those still mapped.
    pub mapped: u64,
    /// See above.
    pub mapped_live: u64,
    /// Samples of blocks it asked for.
    pub samples: u64,
    /// The calls that led to it, innermost first, of one of its stacks.
    pub frames: Vec<FrameReport>,
}

/// One frame.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FrameReport {
    /// The module.
    pub module: String,
    /// The address in the module's own numbers.
    pub offset: u64,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// It was inlined into the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

impl Range {
    /// What is known.
    pub fn exact(number: u64) -> Self {
        #[allow(clippy::cast_precision_loss)]
        let value = number as f64;
        Self { value, low: value, high: value }
    }
}

impl From<Estimate> for Range {
    fn from(estimate: Estimate) -> Self {
        Self { value: estimate.value, low: estimate.low, high: estimate.high }
    }
}

impl From<Range> for Estimate {
    fn from(range: Range) -> Self {
        Self { value: range.value, low: range.low, high: range.high }
    }
}

impl From<Measure> for Amount {
    fn from(measure: Measure) -> Self {
        Self { bytes: measure.bytes.into(), blocks: measure.count.into() }
    }
}

impl From<Frame> for FrameReport {
    fn from(frame: Frame) -> Self {
        let Frame { module, offset, function, file, line, inlined } = frame;
        let text = |shared: std::sync::Arc<str>| shared.to_string();
        let (function, file) = (function.map(text), file.map(text));
        Self { module: text(module), offset, function, file, line, inlined }
    }
}

impl FrameReport {
    /// As a person would call it.
    pub fn place(&self) -> String {
        let module = self.module.rsplit('/').next().unwrap_or(&self.module);
        match (&self.function, &self.file, self.line) {
            (Some(function), Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            (Some(function), ..) => format!("{function} in {module}"),
            _ => format!("{module}+{:#x}", self.offset),
        }
    }
}

/// Where sites got their memory: all addresses that names will be wanted for.
pub fn callers(recorder: &Recorder) -> impl Iterator<Item = u64> {
    let sites = recorder.profile().sites_by(Flow::Live);
    let stacks = sites.into_iter().filter_map(|site| recorder.records.stack(site.stack));
    stacks.flat_map(|stack| stack.frames.iter().map(|at| at.get()))
}

/// Everything about the heap but where the target's memory went otherwise.
pub fn heap_report(
    session: &Session<'_>,
    recorder: &Recorder,
    symbols: &mut Symbols,
    hidden: &Hidden,
    lost: Lost,
) -> HeapReport {
    let (profile, records) = (recorder.profile(), &recorder.records);
    let total = profile.heap();
    symbols.prepare_returns(callers(recorder));
    let mut causes = Causes { symbols, hidden, known: HashMap::new() };
    let sites = profile.grouped_by(Flow::Live, |id| causes.of(records.stack(id)));
    let amount = |flow| Amount::from(total.measure(flow));
    HeapReport {
        every: session.stream.interval,
        allocated: amount(Flow::Allocated),
        freed: amount(Flow::Freed),
        live: amount(Flow::Live),
        peak_bytes: profile.peak().into(),
        mapped: profile.pages().mapped,
        mapped_live: profile.pages().live,
        records: total.samples(Flow::Allocated),
        lost: recorder.loss(lost),
        more_sites: sites.len().saturating_sub(SITES),
        sites: sites
            .iter()
            .take(SITES)
            .map(|site| site_report(session, recorder, site, symbols, hidden))
            .collect(),
    }
}

/// Who caused an allocation: its place, and that of the function it was inlined into.
type Cause = (String, String);

/// The calls at an address: what part each plays, and what it is if it is the cause.
type Calls = Rc<[(Part, Rc<Cause>)]>;

/// Who caused an allocation, by the addresses of its stack.
struct Causes<'a> {
    symbols: &'a mut Symbols,
    hidden: &'a Hidden,
    /// The calls at an address.
    known: HashMap<RemoteAddr, Calls>,
}

impl Causes<'_> {
    /// In words: stacks with the same words count as one site.
    fn of(&mut self, stack: Option<&Stack>) -> Option<Cause> {
        let (mut search, mut seen) = (Search::default(), Vec::new());
        for &address in stack.iter().flat_map(|stack| &stack.frames) {
            for (part, cause) in self.calls(address).iter() {
                seen.push(Rc::clone(cause));
                if let Some(found) = search.take(*part) {
                    return seen.get(found).map(|cause| cause.as_ref().clone());
                }
            }
        }
        seen.get(search.end()).map(|cause| cause.as_ref().clone())
    }

    fn calls(&mut self, address: RemoteAddr) -> Calls {
        let (symbols, hidden) = (&mut *self.symbols, self.hidden);
        let calls = self.known.entry(address).or_insert_with(|| {
            let frames: Vec<FrameReport> =
                symbols.symbolize_return(address.get()).into_iter().map(Into::into).collect();
            // What was inlined there belongs to a function, which it does not name.
            let own = frames.last().map(FrameReport::place).unwrap_or_default();
            let call =
                |frame: &FrameReport| (hidden.part(frame), Rc::new((frame.place(), own.clone())));
            frames.iter().map(call).collect()
        });
        Rc::clone(calls)
    }
}

fn site_report(
    session: &Session<'_>,
    recorder: &Recorder,
    site: &Row,
    symbols: &mut Symbols,
    hidden: &Hidden,
) -> SiteReport {
    let frames = frames(session, recorder, site.stack, symbols);
    let cause = hidden.cause(&frames);
    SiteReport {
        cause,
        place: frames.get(cause).map_or_else(|| "[unknown]".to_owned(), FrameReport::place),
        live: site.heap.measure(Flow::Live).into(),
        allocated: site.heap.measure(Flow::Allocated).into(),
        mapped: site.pages.mapped,
        mapped_live: site.pages.live,
        samples: site.heap.samples(Flow::Allocated),
        frames,
    }
}

/// The frames of a stack, as far as they lead to code.
fn frames(
    session: &Session<'_>,
    recorder: &Recorder,
    stack: StackId,
    symbols: &mut Symbols,
) -> Vec<FrameReport> {
    let Some(stack) = recorder.records.stack(stack) else { return Vec::new() };
    // The first is certain; further ones are, as far as they lead to code that calls. So are Python
    // frames, whatever lies between.
    let mut is_certain = true;
    let frames = stack.frames.iter().enumerate().filter(|(depth, at)| {
        let is_code = || *depth == 0 || session.places.name(**at) != places::UNKNOWN;
        is_certain = python::number_at(at.get()).is_some() || (is_certain && is_code());
        is_certain
    });
    let frames = frames.map(|(_, at)| at);
    frames.flat_map(|at| symbols.symbolize_return(at.get())).map(FrameReport::from).collect()
}
