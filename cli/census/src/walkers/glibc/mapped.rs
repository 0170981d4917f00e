//! Chunks that have a mapping of their own: blocks beyond a threshold.

use std::ops::Range;

use crate::{Check, Moment, RegionKind, Window};

use super::{FLAGS, HEAD, Heap, MAPPED, PAGE, SMALLEST, chunks::MappedChunk};

/// So much is read at once.
const WINDOW: usize = 1 << 16;
/// What the size in a head leaves out of its mapping: nothing, or, in late releases, a head.
const PADDING: [u64; 2] = [0, HEAD];
/// Where in a page a head can be: at its start, or before a multiple of an alignment.
const OFFSETS: [u64; 9] = [0, 16, 48, 112, 240, 496, 1008, 2032, 4080];

/// Adds them; the way of counting that adds up is the right one.
pub fn add(moment: &Moment<'_>, heap: &mut Heap) {
    let told = heap.parameters.map(|parameters| (parameters.mapped, parameters.mapped_bytes));
    if told.is_some_and(|(count, _)| count == 0) {
        return;
    }
    let mut best: Vec<MappedChunk> = Vec::new();
    for padding in PADDING {
        let found = find(moment, heap, padding, told);
        let is_right = told == Some(sums(&found));
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
        let slack = if found == count { 0 } else { u64::MAX };
        heap.walk.check(None, Check { what, found: found_bytes, told: bytes, slack });
    }
    heap.chunks.mapped = best;
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
                match look(moment, &mut window, at, &region.range, padding) {
                    Some(chunk) => {
                        sum = (sum.0 + 1, sum.1 + chunk.total);
                        at = chunk.base + chunk.total;
                        found.push(chunk);
                    }
                    None => at += PAGE,
                }
                if told == Some(sum) {
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

/// The chunk whose mapping begins at `at`, if there is one.
fn look(
    moment: &Moment<'_>,
    window: &mut Window<'_, '_>,
    at: u64,
    region: &Range<u64>,
    padding: u64,
) -> Option<MappedChunk> {
    let mut hit = None;
    for offset in OFFSETS {
        let head = at + offset;
        let Some((before, size)) = window.pair(head) else { continue };
        if size & FLAGS != MAPPED || before > head - region.start || (offset == 0) != (before == 0)
        {
            continue;
        }
        let size = size & !FLAGS;
        let base = head - before;
        let total = before.saturating_add(size).saturating_add(padding);
        let is_sound = size >= SMALLEST
            && size.is_multiple_of(HEAD)
            && base == at
            && total.is_multiple_of(PAGE)
            && total <= region.end - base;
        if is_sound {
            let usable = usable(size, padding);
            hit = Some(MappedChunk { at: head, usable, base, total });
            if offset != 0 {
                break;
            }
        }
    }
    let hit = hit?;
    Some(if hit.at == hit.base { aligned(moment, hit, padding) } else { hit })
}

/// An aligned block leaves the first head at the base; its own is further in, before a multiple of its
/// alignment.
fn aligned(moment: &Moment<'_>, hit: MappedChunk, padding: u64) -> MappedChunk {
    let MappedChunk { base, total, .. } = hit;
    let mut alignment = SMALLEST;
    while alignment < total {
        let mut block = (base + HEAD).next_multiple_of(alignment);
        if block - HEAD != base && block - HEAD - base < SMALLEST {
            block += alignment;
        }
        let head = block - HEAD;
        if head > base
            && head + SMALLEST < base + total
            && let Some([before, size]) =
                moment.words(head, 2).as_deref().and_then(|w| w.first_chunk())
        {
            let rest = (total - padding).checked_sub(*before);
            if *before == head - base && rest.is_some_and(|rest| *size == rest | MAPPED) {
                let usable = usable(*size & !FLAGS, padding);
                return MappedChunk { at: head, usable, base, total };
            }
        }
        alignment *= 2;
    }
    hit
}

/// What of a mapped chunk of this size can be used: without its head, or, where the size leaves one out,
/// without half of it.
fn usable(size: u64, padding: u64) -> u64 {
    size - HEAD + padding / 2
}
