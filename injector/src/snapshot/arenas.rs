//! The C library's allocator in a stopped target: what of its memory are books, and what heaps.

use std::ops::Range;

use heapattach_process::{
    addr::RemoteAddr,
    little_endian::u64_at,
    memory::Memory,
    proc::maps::{self, Mapping},
};

use super::arena::{self, Arena, HEAP_STEP, heap_at};

/// Books of an allocator lie in a module, among the variables that do not begin as zero, or not far behind. A program may
/// have gigabytes of others: to read these takes long in a stop, and has pages made of those that were never touched.
const MODULE_LIMIT: u64 = 64 << 20;
const ZERO_LIMIT: u64 = 256 << 10;
/// Places at which a heap may begin, at most: programs reserve terabytes.
const MOST_STEPS: u32 = 1 << 14;
/// What a heap begins with, before its arena or its first chunk.
const HEAP_HEAD: u64 = 0x30;

/// So much is read at once where word follows word.
const WINDOW: usize = 64 << 10;

/// All of it.
#[derive(Debug, Default)]
pub struct Arenas {
    /// What blocks are allocated from, besides the memory up to the program's break.
    pub heaps: Vec<Range<u64>>,
    /// What is the allocator's own.
    pub books: Vec<Range<u64>>,
}

impl Arenas {
    /// In whichever module the allocator is. Of a place it is asked whether anything is there: else it is not read, for
    /// which the kernel would make page tables.
    pub fn of(memory: &Memory, maps: &[Mapping<'_>], is_there: &dyn Fn(u64) -> bool) -> Self {
        let mut found = Self::default();
        for range in variables(maps) {
            let length = (range.end - range.start).min(MODULE_LIMIT);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            let read = memory.read_some(RemoteAddr::new(range.start), &mut bytes).unwrap_or(0);
            let mut word = |at: u64| memory.word(RemoteAddr::new(at)).ok();
            if let Some(arena) = Arena::find(range.start, &bytes[..read], &mut word) {
                found.add(&arena, maps, memory);
            }
        }
        found.look_for_heaps(memory, maps, is_there);
        found.heaps.sort_unstable_by_key(|heap| (heap.start, heap.end));
        found.heaps.dedup_by_key(|heap| heap.start);
        found.books.sort_unstable_by_key(|book| (book.start, book.end));
        found
    }

    /// What an arena and those that it leads to have.
    fn add(&mut self, arena: &Arena, maps: &[Mapping<'_>], memory: &Memory) {
        let mut page = Page::default();
        let word = &mut |at: u64| page.word(memory, at);
        self.books.push(arena.books());
        let others = arena.others(word).unwrap_or_default();
        for other in others {
            self.books.push(arena.books_of(other));
            self.heaps.extend(arena.heaps(other, word).into_iter().filter(|h| is_free(maps, h)));
        }
        // Where the program's break is it has a name, and need not be followed.
        let is_named = |at: u64| {
            let own = maps::covering(maps, RemoteAddr::new(at));
            own.is_none_or(|own| own.label() == "[heap]")
        };
        let main = arena.top(word).filter(|&top| !is_named(top));
        let main = main.and_then(|_| arena.main_heap(word));
        self.heaps.extend(main.filter(|heap| is_free(maps, heap)));
    }

    /// Heaps that no ring has led to; neighbours may share a mapping.
    fn look_for_heaps(
        &mut self,
        memory: &Memory,
        maps: &[Mapping<'_>],
        is_there: &dyn Fn(u64) -> bool,
    ) {
        let mut left = MOST_STEPS;
        for mapping in maps.iter().filter(|m| is_candidate(m)) {
            let (start, end) = (mapping.range.start.get(), mapping.range.end.get());
            let mut at = start.next_multiple_of(HEAP_STEP);
            while at < end && left > 0 {
                left -= 1;
                let mut bytes = [0; 32];
                if is_there(at) && memory.read(RemoteAddr::new(at), &mut bytes).is_ok() {
                    let words = [0, 8, 16, 24].map(|offset| u64_at(&bytes, offset).unwrap_or(0));
                    if let Some(heap) = heap_at(at, words, end) {
                        // The first of several has the arena.
                        let first = if words[1] == 0 { arena::MOST_BOOKS } else { 0 };
                        let end = heap.start + HEAP_HEAD + first;
                        self.books.push(heap.start..end.min(heap.end));
                        self.heaps.push(heap);
                    }
                }
                at += HEAP_STEP;
            }
        }
    }
}

/// The last piece of memory that a word was read of.
#[derive(Default)]
struct Page {
    at: u64,
    bytes: Vec<u8>,
}

impl Page {
    fn word(&mut self, memory: &Memory, at: u64) -> Option<u64> {
        let is_here = at >= self.at && at.saturating_add(8) <= self.at + self.bytes.len() as u64;
        if !is_here {
            let mut bytes = vec![0; WINDOW];
            let read = memory.read_some(RemoteAddr::new(at), &mut bytes).unwrap_or(0);
            bytes.truncate(read);
            (self.at, self.bytes) = (at, bytes);
        }
        u64_at(&self.bytes, usize::try_from(at - self.at).ok()?)
    }
}

/// The variables of each module, with the first of those that begin as zero: they follow, without a file.
fn variables(maps: &[Mapping<'_>]) -> impl Iterator<Item = Range<u64>> {
    let own = maps.iter().filter(|m| m.writable && m.inode != 0 && !m.shared && !m.is_huge());
    own.map(|mapping| {
        let next = maps.iter().find(|m| m.range.start == mapping.range.end && m.is_anonymous());
        let own = mapping.range.start.get()..mapping.range.end.get();
        let end = next.filter(|m| m.writable).map_or(own.end, |m| m.range.end.get());
        own.start..end.min(own.end.saturating_add(ZERO_LIMIT))
    })
}

fn is_candidate(mapping: &Mapping<'_>) -> bool {
    mapping.writable && (mapping.is_anonymous() || mapping.is_huge()) && !mapping.shared
}

/// Whether a range is memory that a program asked for, all of it.
fn is_free(maps: &[Mapping<'_>], range: &Range<u64>) -> bool {
    let mut at = range.start;
    while at < range.end {
        match maps::covering(maps, RemoteAddr::new(at)) {
            Some(mapping) if is_candidate(mapping) => at = mapping.range.end.get(),
            _ => return false,
        }
    }
    true
}
