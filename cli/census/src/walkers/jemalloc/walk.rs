//! One heap of jemalloc, from its extents to its blocks.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    Block, Check, Moment, Sink, State, Walk,
    walkers::{in_library, page_tree::Tree},
};

use super::{
    arena::{Arenas, Books},
    cache::Caches,
    classes::Quantum,
    extent::{Extent, Use},
};

const PAGE: u64 = 4096;
/// Doubts of one kind that are named one by one.
const NAMED: usize = 4;

/// What is known of it before its blocks are told.
#[derive(Debug)]
pub struct Heap {
    root: Tree,
    /// Ascending; none overlaps another.
    extents: Vec<Extent>,
    quantum: Quantum,
    /// Bytes at the end of large extents that no block has.
    pad: u64,
    arenas: Option<Arenas>,
    caches: Caches,
    doubts: Vec<String>,
}

/// While blocks are told.
struct Telling<'a> {
    walk: &'a mut Walk,
    sink: &'a mut dyn Sink,
    /// The index in the walk of each arena.
    index: BTreeMap<u32, u32>,
    /// What was found of each, to be compared with its books.
    found: BTreeMap<u32, Found>,
    /// Blocks of caches that were not met yet; ascending.
    cached: std::iter::Peekable<std::vec::IntoIter<(u64, u32)>>,
    /// Blocks in caches that are no blocks in use.
    strays: u64,
}

#[derive(Default)]
struct Found {
    /// Pages active, dirty, muzzy.
    pages: [u64; 3],
    retained: u64,
    regions: u64,
    large: u64,
    /// Bytes of parts of huge pages that are kept for the next request.
    aside: u64,
    /// Bytes of blocks that are the allocator's own.
    internal: u64,
}

impl Heap {
    /// Of that root.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn new(moment: &Moment<'_>, root: Tree) -> Result<Self, String> {
        let mut doubts = Vec::new();
        let extents = extents(moment, &root, &mut doubts);
        let extents = extents.ok_or("the tables of pages overlap: corrupted?")?;
        let sound = |quantum| extents.iter().filter(|extent| extent.adds_up(quantum)).count();
        let (eight, sixteen) = (sound(Quantum::Eight), sound(Quantum::Sixteen));
        let quantum = if eight > sixteen { Quantum::Eight } else { Quantum::Sixteen };
        let is_slab = |extent: &&Extent| {
            extent.is_slab && extent.used == Use::Active && extent.class < Quantum::Sixteen.small()
        };
        let slabs = extents.iter().filter(is_slab).count();
        if eight.max(sixteen) < slabs - slabs / 4 || extents.is_empty() {
            return Err(format!(
                "{} of {slabs} slabs add up: this layout is unknown",
                eight.max(sixteen)
            ));
        }
        let arenas = Arenas::find(moment, &root, quantum);
        let caches = arenas.as_ref().map(|arenas| Caches::read(moment, arenas, quantum));
        let (pad, caches) = (pad(&extents, quantum), caches.unwrap_or_default());
        Ok(Self { root, extents, quantum, pad, arenas, caches, doubts })
    }

    /// Pages that are free and in memory, and private anonymous memory: those of dirty extents, and those of slabs
    /// that no region lies on that is not free. Ascending; neighbours are one.
    pub fn free_pages(&self, moment: &Moment<'_>) -> Vec<Range<u64>> {
        let is_plain = |pages: &Range<u64>| {
            moment.region(pages.start).is_some_and(|region| {
                region.kind == crate::RegionKind::Anonymous
                    && region.label.is_empty()
                    && region.is_private_memory()
                    && region.readable
                    && region.writable
                    && pages.end <= region.range.end
            })
        };
        let mut all = Vec::new();
        for extent in self.extents.iter().filter(|extent| !extent.is_huge_part) {
            let pages = match extent.used {
                Use::Dirty => vec![extent.pages()],
                Use::Active => extent.free_pages(self.quantum),
                Use::Muzzy | Use::Retained | Use::Changing => continue,
            };
            let plain = pages.into_iter().filter(is_plain);
            let there = plain.flat_map(|pages| moment.present(&pages));
            there.for_each(|pages| add(&mut all, pages));
        }
        all
    }

    /// All extents, ascending.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Blocks that caches of threads have; ascending.
    pub fn cached(&self) -> impl Iterator<Item = u64> {
        self.caches.blocks.iter().map(|(at, _)| *at)
    }

    /// The usable bytes of an extent that is one block.
    pub fn size(&self, extent: &Extent) -> Option<u64> {
        let is_block = extent.class < self.quantum.classes();
        let most = extent.size - self.pad.min(extent.size);
        let bytes = self.quantum.bytes(extent.class).map_or(most, |bytes| bytes.min(most));
        is_block.then_some(bytes)
    }

    /// Tells every block, and what the arenas have.
    pub fn walk(self, moment: &Moment<'_>, walk: &mut Walk, sink: &mut dyn Sink) {
        let image = moment.images().get(self.root.image).map_or("", |image| image.path.as_str());
        let name = image.rsplit('/').next().unwrap_or_default();
        let release =
            self.arenas.as_ref().map_or("of an unknown release", |own| own.layout.release);
        let layout = format!("jemalloc {release} in {name}");
        let is_first = walk.layout.is_empty();
        walk.layout = if is_first { layout } else { format!("{}; {layout}", walk.layout) };
        self.doubts.iter().take(NAMED).for_each(|why| walk.doubt(None, why.clone()));
        if self.arenas.is_none() {
            let why =
                format!("{name}: no arena was found, so blocks in caches of threads count as used");
            walk.doubt(None, why);
        }
        let mut telling = Telling {
            index: self.name_arenas(walk, if is_first { "" } else { name }),
            walk,
            sink,
            found: BTreeMap::new(),
            cached: self.caches.blocks.clone().into_iter().peekable(),
            strays: 0,
        };
        self.extents.iter().for_each(|extent| telling.extent(&self, extent));
        telling.finish(&self, moment);
    }

    /// Puts all arenas into the walk; answers where each is there.
    fn name_arenas(&self, walk: &mut Walk, module: &str) -> BTreeMap<u32, u32> {
        let known = self.arenas.iter().flat_map(|arenas| arenas.at.keys());
        let mut index = BTreeMap::new();
        known.chain(self.extents.iter().map(|extent| &extent.arena)).for_each(|number| {
            index.insert(*number, 0);
        });
        for (number, place) in &mut index {
            *place = u32::try_from(walk.arenas.len()).unwrap_or(u32::MAX);
            let at = self.arenas.as_ref().and_then(|arenas| arenas.at.get(number));
            let of = if module.is_empty() { String::new() } else { format!(" of {module}") };
            walk.arenas.push(crate::Arena {
                name: format!("arena {number}{of}"),
                at: at.copied().unwrap_or(0),
                ..crate::Arena::default()
            });
        }
        index
    }
}

/// Those that begin where a page leads to them.
fn extents(moment: &Moment<'_>, root: &Tree, doubts: &mut Vec<String>) -> Option<Vec<Extent>> {
    let mut extents: Vec<Extent> = Vec::new();
    let (mut end, mut last) = (0, 0);
    root.each(moment, &mut |page, books| {
        if std::mem::replace(&mut last, books) == books {
            return;
        }
        let extent = Extent::read(moment, books).filter(|extent| extent.pages().start == page);
        let Some(extent) = extent else { return };
        let (at, pages) = (extent.at, extent.pages());
        let is_mapped = |at| moment.region(at).is_some();
        let why = if pages.start < end {
            "overlaps the one before"
        } else if extent.used == Use::Active
            && !(is_mapped(pages.start) && is_mapped(pages.end - 1))
        {
            "is not mapped"
        } else {
            end = pages.end;
            extents.push(extent);
            return;
        };
        doubts.push(format!("the extent at {at:#x} {why}: corrupted?"));
    })?;
    Some(extents)
}

/// Large extents have a page more than their block, so that it can begin anywhere in the first; a build or a
/// setting can leave that out.
fn pad(extents: &[Extent], quantum: Quantum) -> u64 {
    let is_large = |extent: &&Extent| {
        extent.used == Use::Active && !extent.is_slab && extent.class >= quantum.small()
    };
    let is_padded = |extent: &Extent| {
        let bytes = quantum.bytes(extent.class);
        !extent.at.is_multiple_of(PAGE) || bytes.is_some_and(|bytes| extent.size > bytes)
    };
    if extents.iter().filter(is_large).any(is_padded) { PAGE } else { 0 }
}

impl Telling<'_> {
    fn extent(&mut self, heap: &Heap, extent: &Extent) {
        let found = self.found.entry(extent.arena).or_default();
        let pages = extent.size / PAGE;
        let is_block = extent.class < heap.quantum.classes();
        match extent.used {
            Use::Active if !is_block && extent.is_huge_part => found.aside += extent.size,
            Use::Active => found.pages[0] += pages,
            Use::Dirty => found.pages[1] += pages,
            Use::Muzzy => found.pages[2] += pages,
            Use::Retained => {
                found.retained += extent.size;
                return;
            }
            Use::Changing => self.walk.in_flight += 1,
        }
        let Some(&index) = self.index.get(&extent.arena) else { return };
        let Some(arena) = self.walk.arenas.get_mut(index as usize) else { return };
        add(&mut arena.memory, extent.pages());
        match extent.used {
            Use::Active if is_block && extent.is_slab => self.slab(heap, extent, index),
            Use::Active if is_block => self.large(heap, extent, index),
            Use::Active => {
                // On its way to or from a list of free ones.
                self.walk.in_flight += u64::from(!extent.is_huge_part);
                arena.bytes.top += extent.size;
                add(&mut arena.top, extent.pages());
            }
            _ => {
                arena.bytes.top += extent.size;
                add(&mut arena.top, extent.pages());
            }
        }
    }

    fn slab(&mut self, heap: &Heap, extent: &Extent, index: u32) {
        let Some((count, bytes)) = extent.regions(heap.quantum) else {
            let Extent { at, class, .. } = extent;
            self.walk
                .doubt(Some(index), format!("the slab at {at:#x} has class {class}: corrupted?"));
            return;
        };
        if !extent.adds_up(heap.quantum) {
            let bits = extent.free_bits(count);
            let Extent { at, free, .. } = extent;
            let why = format!("the slab at {at:#x} counts {free} free regions, its bitmap {bits}");
            self.walk.doubt(Some(index), why);
        }
        self.sink.unit(extent.pages());
        for region in 0..count {
            let at = extent.at + region * bytes;
            let is_free = extent.is_free(region);
            if !is_free {
                self.found.entry(extent.arena).or_default().regions += 1;
            }
            let (state, class) = (State::Free, extent.class);
            let block = Block { at, size: bytes, state, arena: index, class };
            self.block(heap, extent.arena, block, is_free);
        }
        self.books(index, extent.size - count * bytes);
    }

    fn large(&mut self, heap: &Heap, extent: &Extent, index: u32) {
        self.found.entry(extent.arena).or_default().large += 1;
        let Some(size) = heap.size(extent) else { return };
        let block =
            Block { at: extent.at, size, state: State::Used, arena: index, class: extent.class };
        self.block(heap, extent.arena, block, false);
        self.books(index, extent.size - size);
    }

    fn block(&mut self, heap: &Heap, arena: u32, mut block: Block, is_free: bool) {
        while self.cached.next_if(|(at, _)| *at < block.at).is_some() {
            self.strays += 1;
        }
        let mut times = 0;
        while let Some((_, class)) = self.cached.next_if(|(at, _)| *at == block.at) {
            times += 1;
            self.strays += u64::from(is_free || class != block.class || times > 1);
        }
        let range = block.at..block.at.saturating_add(block.size);
        block.state = match (is_free, times) {
            (true, _) => State::Free,
            (false, 0) if heap.caches.own.range(range).next().is_some() => {
                if let Some(found) = self.found.get_mut(&arena) {
                    found.internal += block.size;
                }
                return self.books(block.arena, block.size);
            }
            (false, 0) => State::Used,
            (false, _) => State::Cached,
        };
        if let Some(arena) = self.walk.arenas.get_mut(block.arena as usize) {
            arena.bytes.add(block.state, block.size);
        }
        self.sink.block(block);
    }

    fn books(&mut self, index: u32, bytes: u64) {
        if let Some(arena) = self.walk.arenas.get_mut(index as usize) {
            arena.bytes.books = arena.bytes.books.saturating_add(bytes);
        }
    }

    /// Compares what was found with what each arena counts.
    fn finish(mut self, heap: &Heap, moment: &Moment<'_>) {
        self.strays += self.cached.by_ref().count() as u64;
        let Some(arenas) = &heap.arenas else { return };
        let all: BTreeMap<u32, Books> = (arenas.at.keys())
            .filter_map(|index| Some((*index, arenas.books(moment, *index, heap.quantum)?)))
            .collect();
        let has_statistics = all.values().any(|books| books.requests > 0);
        if !has_statistics {
            self.walk
                .notes
                .push("this build keeps no statistics: pages alone were compared".to_owned());
        }
        let image = moment.images().get(heap.root.image);
        let within = image.map_or(0, |image| in_library(moment, image, "jemalloc", self.walk));
        let taken: u64 = all.values().map(|books| books.taken).sum();
        self.walk.in_flight += taken.max(within);
        for (number, place) in std::mem::take(&mut self.index) {
            let found = self.found.remove(&number).unwrap_or_default();
            match all.get(&number) {
                Some(books) => self.compare(place, &found, books, has_statistics),
                None => {
                    let why = "its books were not found or are not sound".to_owned();
                    self.walk.doubt(Some(place), why);
                }
            }
        }
        self.finish_caches(&heap.caches);
    }

    fn compare(&mut self, place: u32, found: &Found, books: &Books, has_statistics: bool) {
        let check = |what, found, told| Check { what, found, told, slack: 0 };
        let mut checks = vec![
            check("active pages", found.pages[0], books.active),
            check("dirty pages", found.pages[1], books.pages[0]),
            check("muzzy pages", found.pages[2], books.pages[1]),
            check("retained pages", found.retained / PAGE, books.pages[2]),
        ];
        let base: u64 = books.base.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
        if has_statistics {
            let what = "bytes of blocks that the allocator has itself";
            checks.push(check(what, found.internal, books.internal));
            checks.push(check("large blocks", found.large, books.large));
            checks.push(check("bytes of blocks of the base", base, books.base_mapped));
            if let Some(regions) = books.regions {
                checks.push(check("regions of slabs", found.regions, regions));
            }
        }
        checks.into_iter().for_each(|check| self.walk.check(Some(place), check));
        let Some(arena) = self.walk.arenas.get_mut(place as usize) else { return };
        let pages = books.active.saturating_add(books.pages[0]).saturating_add(books.pages[1]);
        let bytes = pages.saturating_mul(PAGE).saturating_add(found.aside);
        arena.system = Some(bytes.saturating_add(base));
        arena.bytes.books = arena.bytes.books.saturating_add(base);
        arena.books = books.base.iter().map(|(at, size)| *at..*at + *size).collect();
        arena.books.sort_by_key(|range| range.start);
    }

    fn finish_caches(&mut self, caches: &Caches) {
        let (count, broken, strays) = (caches.count, caches.broken, self.strays);
        if broken > 0 {
            self.walk
                .doubt(None, format!("{broken} of {count} caches of threads cannot be read whole"));
        }
        if strays > 0 && self.walk.in_flight > 0 {
            let note = format!("{strays} blocks are on their way from a cache into slabs");
            self.walk.notes.push(note);
        } else if strays > 0 {
            let why =
                format!("{strays} blocks in caches of threads are no blocks in use of their class");
            self.walk.doubt(None, why);
        }
    }
}

/// Adds a range behind the last.
fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
