//! One heap of tcmalloc, from its spans to its blocks.

use std::ops::Range;

use crate::{
    Arena, Block, Check, Moment, Sink, State, Walk,
    walkers::{in_library, page_tree::Tree},
};

use super::{
    span::{Span, Use, spans},
    tables::{Cache, Central, Sizes, caches, centrals, has_counts},
};

/// What is known of it before its blocks are told.
#[derive(Debug)]
pub struct Heap {
    name: String,
    image: usize,
    data: Vec<Range<u64>>,
    spans: Vec<Span>,
    sizes: Sizes,
    /// By span: where its blocks begin in `states`.
    first: Vec<usize>,
    /// Of every block of a class, in the order of spans.
    states: Vec<State>,
    centrals: Option<Vec<Central>>,
    caches: Vec<Cache>,
    /// By class: blocks found free in spans.
    free: Vec<u64>,
    found: Found,
}

/// What was found on the way.
#[derive(Debug, Default)]
struct Found {
    /// Words of the tree that lead to no span.
    broken: u64,
    /// Links that lead to no block, or to one that was met before.
    bad_links: u64,
    /// Lists of spans and thread caches that are longer or shorter than is counted.
    bad_lists: u64,
    /// Bytes in thread caches.
    cached: u64,
    /// Spans on their way between the page heap and a central list.
    between: u64,
    /// By class: spans.
    spans: Vec<u64>,
}

impl Heap {
    /// Of that tree.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn new(moment: &Moment<'_>, tree: &Tree) -> Result<Self, String> {
        let image = moment.images().get(tree.image).ok_or("its module is no longer mapped")?;
        let (spans, broken) =
            spans(moment, tree).ok_or("the tables of pages overlap: corrupted?")?;
        let sizes = Sizes::find(moment, &image.data);
        let sizes =
            sizes.ok_or("the sizes of its classes were not found: this layout is unknown")?;
        let is_mapped = |span: &&Span| {
            moment.region(span.at).is_some() && moment.region(span.at + span.size - 1).is_some()
        };
        let unmapped = spans.iter().filter(|span| !is_mapped(span)).count() as u64;
        let spans: Vec<_> = spans.iter().filter(is_mapped).copied().collect();
        // Blocks are counted by the bytes of their spans: more than there are would have no end.
        let private = moment.regions().iter().filter(|region| region.is_private_memory());
        let most = private.map(crate::Region::bytes).fold(0, u64::saturating_add);
        if spans.iter().map(|span| span.size).fold(0, u64::saturating_add) > most {
            return Err("its spans are larger than its memory: corrupted?".to_owned());
        }
        let mut heap = Self {
            name: image.path.rsplit('/').next().unwrap_or_default().to_owned(),
            image: tree.image,
            data: image.data.clone(),
            first: Vec::new(),
            states: Vec::new(),
            centrals: centrals(moment, &image.data, &sizes),
            caches: caches(moment, &image.data, &sizes),
            free: vec![0; sizes.0.len()],
            found: Found {
                broken: broken + unmapped,
                spans: vec![0; sizes.0.len()],
                ..Found::default()
            },
            spans,
            sizes,
        };
        heap.mark(moment);
        Ok(heap)
    }

    /// The blocks of a span: how many, and the bytes of each.
    fn blocks(&self, span: &Span) -> Option<(u64, u64)> {
        let Use::Class(class) = span.used else { return None };
        let bytes = self.sizes.of(class)?;
        Some((span.size / bytes, bytes))
    }

    /// Follows all lists of free blocks.
    fn mark(&mut self, moment: &Moment<'_>) {
        let mut total = 0;
        for span in &self.spans {
            self.first.push(total);
            let count = self.blocks(span).map_or(0, |(count, _)| count);
            total += usize::try_from(count).unwrap_or(0);
        }
        self.states = vec![State::Used; total];
        for index in 0..self.spans.len() {
            let span = self.spans[index];
            let Some((count, _)) = self.blocks(&span) else { continue };
            if span.outside == 0 {
                let first = self.first[index];
                let last = first + usize::try_from(count).unwrap_or(0);
                self.states[first..last].fill(State::Free);
            }
            if span.outside == 0 && !span.is_listed {
                self.found.between += 1;
                continue;
            }
            let free = match span.outside {
                0 => count,
                _ => self.follow(moment, span.objects, count, State::Free),
            };
            self.found.bad_lists += u64::from(free != count.saturating_sub(span.outside));
            if let Use::Class(class) = span.used {
                let class = class as usize;
                self.found.spans[class] += 1;
                self.free[class] += free;
            }
        }
        let most = total as u64;
        for central in self.centrals.clone().unwrap_or_default() {
            match central.lists(moment) {
                Some(lists) => lists.into_iter().for_each(|first| {
                    self.follow(moment, first, most, State::Free);
                }),
                None => self.found.bad_lists += 1,
            }
        }
        for cache in self.caches.clone() {
            let mut bytes = 0;
            for (first, length) in cache.lists(moment, &self.sizes) {
                let size = self.place(first).map_or(0, |(_, size)| size);
                let found = self.follow(moment, first, length, State::Cached);
                self.found.bad_lists += u64::from(found != length);
                bytes += found * size;
            }
            self.found.bad_lists += u64::from(bytes != cache.bytes);
            self.found.cached += bytes;
        }
    }

    /// Marks the blocks of a list, no more than there can be; answers how many.
    fn follow(&mut self, moment: &Moment<'_>, first: u64, most: u64, state: State) -> u64 {
        let (mut at, mut count) = (first, 0);
        while at != 0 && count < most {
            let place = self.place(at).and_then(|(place, _)| self.states.get_mut(place));
            match place {
                Some(own) if *own == State::Used => *own = state,
                _ => {
                    self.found.bad_links += 1;
                    break;
                }
            }
            count += 1;
            at = moment.word(at).unwrap_or(0);
        }
        count
    }

    /// Which of all blocks of classes begins there, and its bytes.
    fn place(&self, at: u64) -> Option<(usize, u64)> {
        let index = self.spans.partition_point(|span| span.at <= at).checked_sub(1)?;
        let span = self.spans.get(index)?;
        let (count, bytes) = self.blocks(span)?;
        let offset = at - span.at;
        let is_block = offset.is_multiple_of(bytes) && offset / bytes < count;
        let own = usize::try_from(offset / bytes).ok()?;
        is_block.then_some((self.first[index] + own, bytes))
    }

    /// Tells every block, and what the heap has.
    pub fn walk(self, moment: &Moment<'_>, walk: &mut Walk, sink: &mut dyn Sink) {
        let index = u32::try_from(walk.arenas.len()).unwrap_or(u32::MAX);
        let mut arena = Arena { name: format!("page heap of {}", self.name), ..Arena::default() };
        let layout = format!("tcmalloc of gperftools in {}", self.name);
        let is_first = walk.layout.is_empty();
        walk.layout = if is_first { layout } else { format!("{}; {layout}", walk.layout) };
        let mut returned = 0;
        for (span, first) in self.spans.iter().zip(&self.first) {
            if span.used != Use::Returned {
                match arena.memory.last_mut() {
                    Some(last) if last.end == span.at => last.end += span.size,
                    _ => arena.memory.push(span.at..span.at + span.size),
                }
            }
            if matches!(span.used, Use::Class(_)) {
                sink.unit(span.at..span.at.saturating_add(span.size));
            }
            let mut tell = |at, size, state, class| {
                arena.bytes.add(state, size);
                sink.block(Block { at, size, state, arena: index, class });
            };
            match (span.used, self.blocks(span)) {
                (Use::Block, _) => tell(span.at, span.size, State::Used, 0),
                (Use::Class(class), Some((count, bytes))) => {
                    for (own, at) in (0..count).map(|own| (own, span.at + own * bytes)) {
                        let place = first + usize::try_from(own).unwrap_or(0);
                        tell(at, bytes, self.states[place], class);
                    }
                    arena.bytes.books += span.size - count * bytes;
                }
                (Use::Class(_), None) => arena.bytes.books += span.size,
                (Use::Free, _) => {
                    arena.bytes.top += span.size;
                    arena.top.push(span.at..span.at + span.size);
                }
                (Use::Returned, _) => returned += span.size,
            }
        }
        let (all, top) = (arena.bytes.all(), arena.bytes.top);
        arena.system = Some(all);
        walk.arenas.push(arena);
        self.compare(moment, walk, index, [all + returned, top, returned]);
    }

    /// Compares what was found with what the heap counts.
    fn compare(&self, moment: &Moment<'_>, walk: &mut Walk, index: u32, sums: [u64; 3]) {
        let place = Some(index);
        let check = |what, found, told| Check { what, found, told, slack: 0 };
        let found = &self.found;
        let taken = self.centrals.iter().flatten().filter(|central| central.is_taken).count();
        let image = moment.images().get(self.image);
        let within = image.map_or(0, |image| in_library(moment, image, "tcmalloc", walk));
        walk.in_flight += (taken as u64).max(found.between).max(within);
        let told = u64::from(has_counts(moment, &self.data, sums));
        walk.check(place, check("sums of spans among the heap's counts", 1, told));
        walk.check(place, check("words of the tree that lead to no span", found.broken, 0));
        walk.check(place, check("links that lead to no free block", found.bad_links, 0));
        let what = "lists that are longer or shorter than is counted";
        walk.check(place, check(what, found.bad_lists, 0));
        match &self.centrals {
            None => {
                let why = "central lists were not found: blocks in them count as used";
                walk.doubt(place, why.to_owned());
            }
            Some(centrals) => {
                let sum = |of: fn(&Central) -> u64| {
                    centrals.iter().skip(1).map(of).fold(0, u64::saturating_add)
                };
                let free = self.free.iter().sum();
                walk.check(place, check("free blocks in spans", free, sum(|own| own.free)));
                let spans = found.spans.iter().sum();
                walk.check(place, check("spans of classes", spans, sum(|own| own.spans)));
            }
        }
        if self.caches.is_empty() {
            let why = "no cache of a thread was found: blocks in them count as used";
            walk.doubt(place, why.to_owned());
        }
        walk.notes.push(format!("{} caches of threads", self.caches.len()));
    }
}
