//! Segments of mimalloc 2: 32 MiB each, or as much as one large block needs, aligned to 32 MiB.
//!
//! Each has its own address in its books, mixed with a secret that is the same for all: that proves them.

use std::{collections::BTreeMap, ops::Range};

use crate::Moment;

use super::{
    layout::{Layout, SEGMENTS},
    page::{Page, SLICE},
};

const ALIGNED: u64 = 32 << 20;
/// Slices that have books, at most.
const MOST_ENTRIES: u64 = 513;
/// Slices that books take, at most.
const MOST_INFO: u64 = 16;

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// All of it, its books first.
    pub range: Range<u64>,
    /// Where its pages begin.
    pub pages_from: u64,
    /// The thread that has it, or 0.
    pub owner: u64,
    /// Pages in use, as it counts them itself.
    pub used: u64,
}

/// All of a process.
#[derive(Debug)]
pub struct Segments {
    /// The layout that fits.
    pub layout: &'static Layout,
    /// Ascending.
    pub segments: Vec<Segment>,
    /// Pages in use, ascending.
    pub pages: Vec<Page>,
    /// Pages whose books cannot be.
    pub broken: u64,
    /// The books of the first of these.
    pub first_broken: Option<u64>,
}

impl Segments {
    /// Those of the layout and secret with which most pages are sound.
    pub fn find(moment: &Moment<'_>) -> Option<Self> {
        let mut groups: BTreeMap<(usize, u64), Vec<u64>> = BTreeMap::new();
        for at in places(moment) {
            for (layout, own) in SEGMENTS.iter().enumerate() {
                let cookie = moment.word(at + own.cookie).unwrap_or(0);
                if cookie != 0 && header(moment, at, own).is_some() {
                    groups.entry((layout, cookie ^ at)).or_default().push(at);
                }
            }
        }
        let all = groups
            .into_iter()
            .map(|((layout, _), places)| Self::read(moment, &SEGMENTS[layout], &places));
        let all =
            all.filter(|own| !own.pages.is_empty() && own.broken <= own.pages.len() as u64 / 8);
        // Two layouts differ in where blocks begin alone: with the wrong one, lists of free ones break.
        all.max_by_key(|own| (own.pages.len(), own.sound_lists(moment)))
    }

    fn read(moment: &Moment<'_>, layout: &'static Layout, places: &[u64]) -> Self {
        let mut all =
            Self { layout, segments: Vec::new(), pages: Vec::new(), broken: 0, first_broken: None };
        let mut end = 0;
        for at in places {
            // What lies inside of a large block is no segment any more.
            let Some(segment) = header(moment, *at, layout).filter(|_| *at >= end) else {
                continue;
            };
            end = segment.range.end;
            all.add_pages(moment, &segment);
            all.segments.push(segment);
        }
        all
    }

    fn add_pages(&mut self, moment: &Moment<'_>, segment: &Segment) {
        let (layout, start) = (self.layout, segment.range.start);
        let entries = moment.word(start + layout.entries).unwrap_or(0).min(MOST_ENTRIES);
        let mut slice = (segment.pages_from - start) / SLICE;
        while slice < entries {
            let at = start + layout.slices + layout.slice * slice;
            let Some(counts) = moment.word(at) else { break };
            let (count, offset) = (counts & 0xffff_ffff, counts >> 32);
            if count == 0 || offset != 0 {
                slice += 1;
                continue;
            }
            let bytes = moment.word(at + layout.page.block.0).unwrap_or(0);
            let bytes = if layout.page.block.1 == 4 { bytes & 0xffff_ffff } else { bytes };
            let from = start + slice * SLICE;
            let span = from..(from + count * SLICE).min(segment.range.end);
            if bytes != 0 {
                match Page::read(moment, at, &layout.page, span, segment.owner) {
                    Some(page) => self.pages.push(page),
                    // A page without blocks in use is on its way to become one, or to be none.
                    None if self.used(moment, at) == 0 => {}
                    None => {
                        self.broken += 1;
                        self.first_broken = self.first_broken.or(Some(at));
                    }
                }
            }
            slice += count;
        }
    }

    fn used(&self, moment: &Moment<'_>, at: u64) -> u64 {
        let (offset, bytes) = self.layout.page.used;
        moment.word(at + offset).map_or(0, |word| word & ((1 << (8 * bytes)) - 1))
    }

    fn sound_lists(&self, moment: &Moment<'_>) -> usize {
        let some = self.pages.iter().take(1000);
        some.filter(|page| page.free(moment, &[]).broken.is_none()).count()
    }

    /// Blocks that wait in heaps to be freed; and the pages that heaps have, as they count them.
    pub fn delayed(&self, moment: &Moment<'_>, heaps: &BTreeMap<u64, u64>) -> Vec<u64> {
        let mut left: u64 = self.pages.iter().map(|page| page.capacity).sum();
        let mut blocks = Vec::new();
        for heap in heaps.keys() {
            let mut at = moment.word(heap.saturating_add(self.layout.heap_delayed)).unwrap_or(0);
            while at != 0 && left > 0 {
                left -= 1;
                blocks.push(at);
                at = moment.word(at).unwrap_or(0);
            }
        }
        blocks.sort_unstable();
        blocks
    }
}

/// Where a segment can begin.
fn places<'a>(moment: &'a Moment<'_>) -> impl Iterator<Item = u64> + 'a {
    let private = moment.regions().iter().filter(|region| region.is_private_memory());
    private.flat_map(|region| {
        let first = region.range.start.next_multiple_of(ALIGNED);
        (first..region.range.end).step_by(32 << 20)
    })
}

fn header(moment: &Moment<'_>, at: u64, layout: &Layout) -> Option<Segment> {
    let slices = moment.word(at + layout.segment_slices)?;
    let info = moment.word(at + layout.info_slices)?;
    let entries = moment.word(at + layout.entries)?;
    let is_header = (1..=MOST_INFO).contains(&info)
        && (info..=MOST_ENTRIES).contains(&entries)
        && (info..1 << 32).contains(&slices);
    let range = is_header.then(|| at..at + slices * SLICE)?;
    // All of it is mapped, though not all of it may be used.
    moment.region(range.end - 1)?;
    Some(Segment {
        pages_from: at + info * SLICE,
        owner: moment.word(at + layout.thread)?,
        used: moment.word(at + layout.used_pages)?,
        range,
    })
}
