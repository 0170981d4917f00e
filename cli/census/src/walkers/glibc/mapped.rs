//! Chunks that have a mapping of their own: blocks beyond a threshold.

use std::ops::Range;

use crate::{Check, Moment, RegionKind, Window};

use super::{
    FLAGS, HEAD, Heap, MAPPED, PAGE, SMALLEST,
    chunks::{MappedChunk, Mark},
    parameters::DRIFT,
};

/// So much is read at once.
const WINDOW: usize = 1 << 16;
/// What the size in a head leaves out of its mapping: nothing, or, in late releases, a head.
const PADDING: [u64; 2] = [0, HEAD];
/// So many pages behind the start of a mapping a head is looked for, before any of them: a block that grew may
/// have moved, and is not aligned any more.
const PAGES: u64 = 64;

/// Adds them; the way of counting that adds up is the right one.
pub fn add(moment: &Moment<'_>, heap: &mut Heap) {
    let told = heap.parameters.map(|parameters| (parameters.mapped, parameters.mapped_bytes));
    if told.is_some_and(|(count, _)| count == 0) {
        return;
    }
    let mut best: Vec<MappedChunk> = Vec::new();
    for padding in PADDING {
        let found = find(moment, heap, padding, told);
        let is_right = adds_up(told, sums(&found));
        if is_right || sums(&found).1 > sums(&best).1 {
            best = found;
        }
        if is_right {
            break;
        }
    }
    if let Some((count, bytes)) = told {
        let (found, found_bytes) = sums(&best);
        let slack = heap.walk.in_flight;
        let what = "blocks with mappings of their own, and malloc's count";
        heap.walk.check(None, Check { what, found, told: count, slack });
        let what = "bytes of these mappings, and malloc's sum";
        // One that is made or unmapped just now may have any size.
        let slack = if found == count { DRIFT } else { u64::MAX };
        heap.walk.check(None, Check { what, found: found_bytes, told: bytes, slack });
    }
    best.sort_by_key(|chunk| chunk.at);
    heap.chunks.mapped = best;
}

/// Whether what was found is what malloc tells.
fn adds_up(told: Option<(u64, u64)>, (count, bytes): (u64, u64)) -> bool {
    told.is_some_and(|told| told.0 == count && told.1.abs_diff(bytes) <= DRIFT)
}

fn sums(chunks: &[MappedChunk]) -> (u64, u64) {
    (chunks.len() as u64, chunks.iter().map(|chunk| chunk.total).fold(0, u64::saturating_add))
}

/// All that look like one, ascending; once they add up, no more is looked for.
fn find(
    moment: &Moment<'_>,
    heap: &Heap,
    padding: u64,
    told: Option<(u64, u64)>,
) -> Vec<MappedChunk> {
    let mut found = Vec::new();
    let mut sum = (0, 0);
    let regions = moment.regions().iter();
    for region in regions.filter(|r| r.is_private_memory() && r.kind != RegionKind::Break) {
        for part in moment.present(&region.range) {
            let mut window = Window::new(moment, region.range.clone(), WINDOW);
            let mut at = part.start.next_multiple_of(PAGE);
            while at < part.end {
                if let Some(segment) = segment_at(heap, at) {
                    at = segment.end.next_multiple_of(PAGE).max(at + PAGE);
                    continue;
                }
                match look(&mut window, at, &region.range, padding) {
                    Some(chunk) => {
                        sum = (sum.0 + 1, sum.1 + chunk.total);
                        at = chunk.base + chunk.total;
                        found.push(chunk);
                    }
                    None => at += PAGE,
                }
                if adds_up(told, sum) {
                    return found;
                }
            }
        }
    }
    found
}

/// The memory of an arena that has this page.
fn segment_at(heap: &Heap, at: u64) -> Option<Range<u64>> {
    let segments = &heap.chunks.segments;
    let index = segments.partition_point(|segment| segment.whole.end <= at);
    let whole = &segments.get(index)?.whole;
    (whole.start & !(PAGE - 1) <= at).then(|| whole.clone())
}

/// The chunk whose mapping begins at `at`, if there is one. That of an aligned block leaves a head at the
/// start, which keeps the size of its first day; its own is further in, before a multiple of its alignment.
fn look(
    window: &mut Window<'_, '_>,
    at: u64,
    region: &Range<u64>,
    padding: u64,
) -> Option<MappedChunk> {
    let (before, first) = window.pair(at)?;
    let size = first & !FLAGS;
    if before != 0 || first & FLAGS != MAPPED || size < SMALLEST || !size.is_multiple_of(HEAD) {
        return None;
    }
    let total = size.checked_add(padding).filter(|total| total.is_multiple_of(PAGE))?;
    let mut alignment = SMALLEST;
    while alignment < total && alignment < region.end - at {
        // Some releases leave room for a chunk before it.
        let block = (at + HEAD).next_multiple_of(alignment);
        for block in [block, block + alignment] {
            if let Some(chunk) = inner(window, at, block - HEAD, region, padding) {
                return Some(chunk);
            }
        }
        alignment *= 2;
    }
    let pages = (total / PAGE).min(PAGES);
    let heads = (1..pages).map(|page| at + page * PAGE - HEAD);
    if let Some(chunk) = { heads }.find_map(|head| inner(window, at, head, region, padding)) {
        return Some(chunk);
    }
    let own = mapped(at, size, padding, at, total);
    (total <= region.end - at).then_some(own)
}

/// The chunk whose head is at `head`, within the mapping that begins at `base`.
fn inner(
    window: &mut Window<'_, '_>,
    base: u64,
    head: u64,
    region: &Range<u64>,
    padding: u64,
) -> Option<MappedChunk> {
    if head <= base || head >= region.end {
        return None;
    }
    let (before, size) = window.pair(head)?;
    let (flags, size) = (size & FLAGS, size & !FLAGS);
    let total = before.checked_add(size)?.checked_add(padding)?;
    let is_sound = flags == MAPPED
        && before == head - base
        && size >= SMALLEST
        && size.is_multiple_of(HEAD)
        && total.is_multiple_of(PAGE)
        && total <= region.end - base;
    is_sound.then(|| mapped(head, size, padding, base, total))
}

/// What of it can be used is all but its head, or, where its size leaves one out, but half of it.
fn mapped(at: u64, size: u64, padding: u64, base: u64, total: u64) -> MappedChunk {
    let usable = size - HEAD + padding / 2;
    MappedChunk { at, usable, base, total, mark: Mark::Used }
}
