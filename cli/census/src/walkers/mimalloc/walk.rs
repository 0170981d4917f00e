//! From pages to blocks, and what is compared.

use std::{collections::BTreeMap, ops::Range};

use crate::{Arena, Block, Check, Moment, Sink, State, Walk};

use super::{map::Map, page::Page, segment::Segments, taken::taken};

/// Doubts of one kind that are named one by one.
const NAMED: u64 = 4;

/// While blocks are told.
struct Telling<'a, 'm> {
    moment: &'a Moment<'m>,
    walk: &'a mut Walk,
    sink: &'a mut dyn Sink,
    /// The index in the walk of each thread that has pages.
    index: BTreeMap<u64, u32>,
    /// Blocks that heaps have yet to free; ascending.
    delayed: Vec<u64>,
    /// By how much pages and their lists differ.
    differ: u64,
    broken: u64,
}

/// Blocks of release 2.
pub fn segments(moment: &Moment<'_>, all: Segments, walk: &mut Walk, sink: &mut dyn Sink) {
    name(walk, all.layout.releases);
    let heaps = heaps(&all.pages);
    let delayed = all.delayed(moment, &heaps);
    let owners = all.segments.iter().map(|segment| segment.owner);
    let mut telling = Telling::new(moment, walk, sink, owners, delayed);
    let mut books: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for segment in &all.segments {
        let Some(arena) = telling.arena(segment.owner) else { continue };
        let bytes = segment.range.end - segment.range.start;
        arena.memory.push(segment.pages_from..segment.range.end);
        arena.books.push(segment.range.start..segment.pages_from);
        arena.system = Some(arena.system.unwrap_or(0).saturating_add(bytes));
        arena.bytes.books += segment.pages_from - segment.range.start;
        books.entry(segment.owner).or_default().0 += segment.used;
    }
    for segment in &all.segments {
        let first = all.pages.partition_point(|page| page.span.start < segment.range.start);
        let own = all.pages[first..].iter().take_while(|page| page.span.start < segment.range.end);
        let mut end = segment.pages_from;
        for page in own {
            telling.unused(segment.owner, end..page.span.start);
            end = page.span.end;
        }
        telling.unused(segment.owner, end..segment.range.end);
    }
    for page in &all.pages {
        books.entry(page.owner).or_default().1 += 1;
        telling.page(page);
    }
    for (owner, (told, found, _)) in books {
        let place = telling.index.get(&owner).copied();
        telling.walk.check(place, Check { what: "pages of segments", found, told, slack: 0 });
    }
    if let Some(at) = all.first_broken {
        let why = format!("the books at {at:#x} are those of no page: corrupted?");
        telling.walk.doubt(None, why);
    }
    telling.finish(&all.pages, all.broken, &heaps, all.layout.page.heap_pages);
}

/// Blocks of release 3.
pub fn map(moment: &Moment<'_>, all: Map, walk: &mut Walk, sink: &mut dyn Sink) {
    name(walk, all.layout.releases);
    let heaps = heaps(all.pages.iter().filter(|page| page.owner != 0));
    let owners = all.pages.iter().map(|page| page.owner);
    let mut telling = Telling::new(moment, walk, sink, owners, Vec::new());
    for page in &all.pages {
        if let Some(arena) = telling.arena(page.owner) {
            arena.memory.push(page.span.clone());
        }
        telling.page(page);
    }
    telling.finish(&all.pages, all.broken, &heaps, all.layout.page.heap_pages);
}

fn name(walk: &mut Walk, releases: &str) {
    let layout = format!("mimalloc {releases}");
    let is_first = walk.layout.is_empty();
    walk.layout = if is_first { layout } else { format!("{}; {layout}", walk.layout) };
}

/// The pages found of each heap.
fn heaps<'p>(pages: impl IntoIterator<Item = &'p Page>) -> BTreeMap<u64, u64> {
    let mut heaps = BTreeMap::new();
    for page in pages.into_iter().filter(|page| page.heap != 0) {
        *heaps.entry(page.heap).or_default() += 1;
    }
    heaps
}

impl<'a, 'm> Telling<'a, 'm> {
    fn new(
        moment: &'a Moment<'m>,
        walk: &'a mut Walk,
        sink: &'a mut dyn Sink,
        owners: impl Iterator<Item = u64>,
        delayed: Vec<u64>,
    ) -> Self {
        let mut index: BTreeMap<u64, u32> = owners.map(|owner| (owner, 0)).collect();
        for (number, (owner, place)) in index.iter_mut().enumerate() {
            *place = u32::try_from(walk.arenas.len()).unwrap_or(u32::MAX);
            let thread = moment.threads().iter().find(|thread| thread.pointer == *owner);
            let name = match (owner, thread) {
                (0, _) => "ended threads".to_owned(),
                (_, Some(thread)) => format!("thread {}", thread.tid),
                (_, None) => format!("a thread ({number})"),
            };
            walk.arenas.push(Arena { name, ..Arena::default() });
        }
        Self { moment, walk, sink, index, delayed, differ: 0, broken: 0 }
    }

    fn arena(&mut self, owner: u64) -> Option<&mut Arena> {
        self.walk.arenas.get_mut(*self.index.get(&owner)? as usize)
    }

    /// What no page takes.
    fn unused(&mut self, owner: u64, range: Range<u64>) {
        if let Some(arena) = self.arena(owner).filter(|_| range.start < range.end) {
            arena.bytes.top += range.end - range.start;
            arena.top.push(range);
        }
    }

    fn page(&mut self, page: &Page) {
        let Some(&index) = self.index.get(&page.owner) else { return };
        let free = page.free(self.moment, &self.delayed);
        if let Some(at) = free.broken {
            self.broken += 1;
            if self.broken <= NAMED {
                let start = page.start;
                let why =
                    format!("a list of free blocks of the page at {start:#x} leads to {at:#x}");
                self.walk.doubt(Some(index), format!("{why}: corrupted?"));
            }
        }
        // Between taking a block and counting it there is a moment.
        self.differ += (page.used + free.uncounted).abs_diff(page.capacity);
        let Some(arena) = self.walk.arenas.get_mut(index as usize) else { return };
        self.sink.unit(page.span.clone());
        for (at, is_free) in (page.start..).step_by(step(page.block)).zip(&free.is_free) {
            let state = if *is_free { State::Free } else { State::Used };
            arena.bytes.add(state, page.block);
            self.sink.block(Block { at, size: page.block, state, arena: index, class: 0 });
        }
        let blocks = page.block * page.reserved;
        let cut = page.start + page.block * page.capacity;
        if page.capacity < page.reserved {
            arena.bytes.top += page.start + blocks - cut;
            arena.top.push(cut..page.start + blocks);
        }
        arena.bytes.books += (page.span.end - page.span.start).saturating_sub(blocks);
    }

    /// Compares what was found with what the heaps count.
    fn finish(self, pages: &[Page], broken: u64, heaps: &BTreeMap<u64, u64>, heap_pages: u64) {
        let (moment, walk) = (self.moment, self.walk);
        if broken > 0 {
            walk.doubt(None, format!("the books of {broken} pages cannot be: corrupted?"));
        }
        let threads = moment.threads().len().max(1) as u64;
        let taken = taken(moment, pages, &self.delayed);
        if taken > 0 {
            walk.in_flight += taken;
            let why = "threads are freeing what others left them, which may count as used";
            walk.doubt(None, format!("{taken} {why}"));
        }
        let what = "blocks that pages count otherwise than their lists";
        walk.check(None, Check { what, found: self.differ, told: 0, slack: threads });
        walk.in_flight += self.differ.min(threads);
        let told =
            heaps.keys().map(|heap| moment.word(heap.saturating_add(heap_pages)).unwrap_or(0));
        let told = told.fold(0, u64::saturating_add);
        let found = heaps.values().sum();
        walk.check(None, Check { what: "pages of heaps", found, told, slack: 0 });
    }
}

fn step(block: u64) -> usize {
    usize::try_from(block).unwrap_or(usize::MAX)
}
