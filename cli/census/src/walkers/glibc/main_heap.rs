//! The memory of the main arena: from the program's break, and, where that gave nothing more, mappings.

use std::ops::Range;

use crate::{Check, Moment, RegionKind};

use super::{
    HEAD, Heap, PAGE, cause,
    chain::{self, Chain, Ending},
    chunks::Segment,
    starts::Starts,
};

/// What two fences take.
const FENCES: u64 = 0x20;

/// What was found of it.
struct Main<'a, 'm> {
    moment: &'a Moment<'m>,
    /// A thread may be in the middle of a change.
    is_changing: bool,
    /// What a chunk that it cuts leaves.
    rest: Option<u64>,
    top: Option<Range<u64>>,
    segments: Vec<Segment>,
    has_top: bool,
    /// Bytes from the system that were found.
    bytes: u64,
    notes: Vec<String>,
    doubts: Vec<String>,
}

/// Adds its segments.
pub fn add(moment: &Moment<'_>, heap: &mut Heap) {
    let top = heap.arenas[0].top.clone();
    let system = heap.arenas[0].system;
    let has_top = top.is_none();
    let mut main = Main {
        moment,
        is_changing: heap.walk.in_flight > 0,
        rest: heap.arenas[0].rest().filter(|_| heap.walk.in_flight > 0),
        top,
        segments: Vec::new(),
        has_top,
        bytes: 0,
        notes: Vec::new(),
        doubts: Vec::new(),
    };
    let start = heap.parameters.map_or(0, |parameters| parameters.break_start);
    main.look_in_break(start, system);
    if !main.has_top || main.bytes < system {
        main.look_in_mappings(system);
    }
    if !main.has_top {
        main.doubts.push("the top of the main arena was not reached".to_owned());
    }
    heap.walk.notes.extend(main.notes);
    for why in main.doubts {
        heap.walk.doubt(Some(0), why);
    }
    let found = main.bytes;
    heap.chunks.segments.extend(main.segments);
    let slack = heap.walk.in_flight * (1 << 20);
    let what = "bytes of the main arena, and what it had from the system";
    heap.walk.check(Some(0), Check { what, found, told: system, slack });
}

impl Main<'_, '_> {
    fn top_start(&self) -> Option<u64> {
        self.top.as_ref().map(|top| top.start)
    }

    fn follow(&self, range: &Range<u64>) -> Chain {
        chain::follow_changing(self.moment, range, true, 0, self.rest)
    }

    /// What brk gave. Others may have called it, too.
    fn look_in_break(&mut self, start: u64, system: u64) {
        let of_break = self.moment.regions().iter().filter(|r| r.kind == RegionKind::Break);
        let of_break: Vec<_> = of_break.map(|region| region.range.clone()).collect();
        let (Some(first), Some(last)) = (of_break.first(), of_break.last()) else { return };
        let whole = first.start..last.end;
        let start = if whole.contains(&start) { start } else { whole.start };
        if start != whole.start {
            self.notes.push(format!("{} bytes of the break are not malloc's", start - whole.start));
        }
        let from = start.next_multiple_of(HEAD);
        let top = self.top.clone().filter(|top| whole.contains(&top.start));
        let to = top.as_ref().map_or(whole.end, |top| top.start);
        let end = match &top {
            // Its head may not be written yet.
            Some(top) if top.is_empty() && self.is_changing => whole.end,
            Some(top) => top.end.min(whole.end),
            None => whole.end,
        };
        // The usual case, in one go.
        let mut chain = self.follow(&(from..to));
        if self.is_changing && top.is_some() {
            chain.end_at_top(to, end);
        }
        let Chain { segment, at, ending } = chain;
        let is_end = top.is_none() && ending == Ending::Fence && ends_a_page(at);
        if ending == Ending::Arrived && top.is_some() || is_end {
            let stop = if is_end { (at + FENCES).next_multiple_of(PAGE) } else { end };
            self.has_top |= top.is_some();
            self.bytes += stop - start;
            return self.push(segment, start..stop);
        }
        self.look_between(start, &whole, top, system);
    }

    /// Where others have called brk there are gaps: every chain that leads to the top or to fences.
    fn look_between(
        &mut self,
        start: u64,
        whole: &Range<u64>,
        top: Option<Range<u64>>,
        system: u64,
    ) {
        let Some(starts) = Starts::find(self.moment, whole, self.top_start()) else { return };
        let (mut at, mut before) = (start, start);
        while let Some(from) = starts.next(self.moment, at, HEAD) {
            let Some(end) = starts.end_of(self.moment, from) else { break };
            let Chain { segment, ending, .. } = self.follow(&(from..end));
            // In the middle of a change a head may not be written yet: what lies before it leads nowhere.
            let is_cut = self.is_changing && before == start && from > start.next_multiple_of(HEAD);
            if is_cut {
                let (missing, cause) = (from - start, cause(true));
                self.doubts
                    .push(format!("{missing} bytes from {start:#x} on were not reached: {cause}"));
            } else if from > before {
                self.notes.push(format!("{} bytes of the break are others'", from - before));
            }
            if !matches!(ending, Ending::Arrived) {
                self.doubts.push(format!("the chain at {from:#x} does not lead to {end:#x}"));
            }
            if Some(end) == self.top_start() {
                let stop = top.as_ref().map_or(end, |top| top.end).min(whole.end);
                self.push(segment, from..stop);
                self.has_top = true;
                (at, before) = (stop, stop);
                break;
            }
            let stop = (end + FENCES).next_multiple_of(PAGE);
            self.push(segment, from..stop);
            (at, before) = (end + FENCES, stop);
        }
        if self.segments.is_empty() {
            let cause = cause(self.is_changing);
            let why = format!("no chain of chunks leads from {start:#x} to the top: {cause}");
            self.doubts.push(why);
        }
        // What others took in between counts as the arena's from the system.
        let _ = (at, system);
        self.bytes += before - start;
    }

    /// Mappings that stand in for the break: each has fences at its end, or the top in it.
    fn look_in_mappings(&mut self, system: u64) {
        let regions = self.moment.regions().iter();
        let mappings = regions.filter(|r| r.is_private_memory() && r.kind != RegionKind::Break);
        for region in mappings.map(|region| region.range.clone()) {
            if self.has_top && self.bytes >= system {
                break;
            }
            let Some(starts) = Starts::find(self.moment, &region, self.top_start()) else {
                continue;
            };
            let mut at = region.start;
            while let Some(from) = starts.next(self.moment, at, PAGE) {
                let Some(end) = starts.end_of(self.moment, from) else { break };
                let Chain { segment, .. } = self.follow(&(from..end));
                let is_top = Some(end) == self.top_start();
                let stop = match &self.top {
                    Some(top) if is_top => top.end.min(region.end),
                    _ => (end + FENCES).next_multiple_of(PAGE),
                };
                self.has_top |= is_top;
                self.bytes += stop - from;
                self.push(segment, from..stop);
                at = stop.next_multiple_of(PAGE).max(at + PAGE);
            }
        }
    }

    fn push(&mut self, mut segment: Segment, whole: Range<u64>) {
        segment.whole = whole;
        self.segments.push(segment);
    }
}

/// Whether fences at `at` are the last of a page.
fn ends_a_page(at: u64) -> bool {
    (at + FENCES).is_multiple_of(PAGE)
}
