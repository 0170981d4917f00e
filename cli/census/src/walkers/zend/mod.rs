//! Zend's allocator, which is PHP's: an inner heap, in chunks that it maps. Read without symbols and without a
//! table of releases.
//!
//! ```text
//! private memory, each 2 MiB -> the chunk that has the books of a heap -> its other chunks, huge blocks
//! chunk -> map of its pages -> runs of small blocks, large blocks; lists of free ones
//! ```
//!
//! Checked each time: the bytes of blocks in use against what PHP counts itself (`memory_get_usage()`), its
//! chunks and huge blocks against what it has from the system (`memory_get_usage(true)`), the bitmap of each
//! chunk against its count. With `USE_ZEND_ALLOC=0` there is no such heap: each block is malloc's.

mod bins;
mod chunk;
mod heap;

#[cfg(test)]
mod synthetic_tests;

use std::{collections::BTreeMap, ops::Range};

use bins::BINS;
use chunk::{CHUNK, Chunk, PAGE, Piece};
use heap::Heap;

use crate::{Answer, Arena, Block, Check, Moment, Sink, State, Walk, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Zend;

/// No more heaps of a process are told: each is of a thread.
const MOST_HEAPS: usize = 1 << 10;

impl Walker for Zend {
    fn name(&self) -> &'static str {
        "zend"
    }

    fn is_inner(&self) -> bool {
        true
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let heaps = Heap::find(moment);
        if heaps.is_empty() {
            return Answer::Absent;
        }
        let running = moment.threads().iter().filter(|thread| thread.call.is_none()).count();
        let in_flight = running.min(heaps.len()) as u64;
        let layout = "Zend's allocator of PHP".to_owned();
        let mut walk = Walk { layout, in_flight, ..Walk::default() };
        let mut taken = BTreeMap::new();
        for heap in heaps.iter().take(MOST_HEAPS) {
            let number = u32::try_from(walk.arenas.len()).unwrap_or(u32::MAX);
            let told = Telling { moment, heap, number, taken: &mut taken, walk: &mut walk, sink };
            let arena = told.tell();
            walk.arenas.push(arena);
        }
        if heaps.len() > MOST_HEAPS {
            walk.doubt(None, format!("{} more heaps are not told", heaps.len() - MOST_HEAPS));
        }
        Answer::Walked(walk)
    }
}

/// Whether there is one.
pub(super) fn is_there(moment: &Moment<'_>) -> bool {
    !Heap::find(moment).is_empty()
}

/// One heap, while it is told.
struct Telling<'a, 'm> {
    moment: &'a Moment<'m>,
    heap: &'a Heap,
    number: u32,
    /// The memory of all heaps so far.
    taken: &'a mut BTreeMap<u64, u64>,
    walk: &'a mut Walk,
    sink: &'a mut dyn Sink,
}

impl Telling<'_, '_> {
    fn tell(mut self) -> Arena {
        let Heap { at, map, .. } = *self.heap;
        let name =
            if self.number == 0 { "main".to_owned() } else { format!("heap {}", self.number) };
        let mut arena = Arena { name, at, system: Some(self.heap.real), ..Arena::default() };
        let (places, is_circle) = self.heap.chunks(self.moment);
        let own: Vec<u64> = places.into_iter().filter(|at| self.take(*at..at + CHUNK)).collect();
        let read = own.iter().filter_map(|at| Chunk::read(self.moment, *at, map));
        let mut chunks: Vec<Chunk> = read.collect();
        let mut is_broken = self.heap.is_broken || !is_circle;
        for (class, first) in self.heap.free.iter().enumerate() {
            is_broken |= !follow(self.moment, &mut chunks, *first, class);
        }
        for chunk in &chunks {
            arena.books.push(chunk.at..chunk.at + PAGE);
            arena.memory.push(chunk.at + PAGE..chunk.at + CHUNK);
            arena.bytes.books += PAGE;
            for (pages, piece) in &chunk.pieces {
                is_broken |= *piece == Piece::Broken;
                let range = chunk.place(pages.start)..chunk.place(pages.end);
                self.piece(range, piece, &mut arena);
            }
        }
        for &(at, size) in &self.heap.huge {
            let range = at..at.saturating_add(size);
            if self.take(range.clone()) {
                arena.memory.push(range);
                self.block(at, size, 0, State::Used, &mut arena);
            }
        }
        for &at in &self.heap.cached {
            if self.take(at..at + CHUNK) {
                arena.memory.push(at..at + CHUNK);
                arena.top.push(at..at + CHUNK);
                arena.bytes.top += CHUNK;
            }
        }
        arena.memory.sort_by_key(|range| range.start);
        arena.top.sort_by_key(|range| range.start);
        self.check(&arena, &chunks, is_broken);
        arena
    }

    /// Whether memory is no other's.
    fn take(&mut self, range: Range<u64>) -> bool {
        let before = self.taken.range(..range.end).next_back();
        if before.is_some_and(|(_, end)| *end > range.start) {
            let why = format!("the memory at {:#x} is in two lists: corrupted?", range.start);
            self.walk.doubt(Some(self.number), why);
            return false;
        }
        self.taken.insert(range.start, range.end);
        true
    }

    fn piece(&mut self, range: Range<u64>, piece: &Piece, arena: &mut Arena) {
        let length = range.end - range.start;
        match piece {
            Piece::Run(class, free) => {
                let Some(bin) = BINS.get(*class) else { return };
                for (place, is_free) in (0..).zip(free) {
                    let state = if *is_free { State::Free } else { State::Used };
                    self.block(range.start + place * bin.size, bin.size, *class, state, arena);
                }
                arena.bytes.books += length.saturating_sub(bin.size * free.len() as u64);
            }
            Piece::Large => self.block(range.start, length, 0, State::Used, arena),
            Piece::Unused => {
                arena.bytes.top += length;
                arena.top.push(range);
            }
            Piece::Broken => arena.bytes.books += length,
        }
    }

    fn block(&mut self, at: u64, size: u64, class: usize, state: State, arena: &mut Arena) {
        arena.bytes.add(state, size);
        let class = u32::try_from(class).unwrap_or(0);
        self.sink.block(Block { at, size, state, arena: self.number, class });
    }

    fn check(&mut self, arena: &Arena, chunks: &[Chunk], is_broken: bool) {
        let Self { heap, number, walk, .. } = self;
        if is_broken {
            let why = "a list or a map of pages leads to what cannot be: corrupted?".to_owned();
            walk.doubt(Some(*number), why);
        }
        // A call counts its block before it takes it: the largest that is no mapping of its own.
        let slack = if walk.in_flight > 0 { CHUNK - PAGE } else { 0 };
        let mut check = |what, found, told, slack| {
            walk.check(Some(*number), Check { what, found, told, slack });
        };
        check("bytes in use, and PHP's own count", arena.bytes.used, heap.used, slack);
        check("chunks, and their count", chunks.len() as u64, heap.chunks, 0);
        check(
            "chunks that are kept, and their count",
            heap.cached.len() as u64,
            heap.cached_told,
            0,
        );
        let found = heap.system();
        check("chunks and huge blocks, and what the system gave", found, heap.real, slack);
        let pages = |side: usize| chunks.iter().map(|chunk| chunk.used_pages[side]).sum();
        check("pages in use, and the chunks' counts", pages(0), pages(1), slack / PAGE);
    }
}

/// Marks the blocks of a list as free; whether all of it can be.
fn follow(moment: &Moment<'_>, chunks: &mut [Chunk], first: u64, class: usize) -> bool {
    let mut at = first;
    while at != 0 {
        let number = chunks.partition_point(|chunk| chunk.at + CHUNK <= at);
        let is_free = chunks.get_mut(number).is_some_and(|chunk| chunk.free(at, class));
        let Some(next) = moment.word(at).filter(|_| is_free) else { return false };
        at = next;
    }
    true
}
