//! The caches of threads: each is a block that a word of its thread's static thread-local variables points
//! to. Caches of threads that are no more, as in a forked child, are recognised by their shape.

use std::collections::HashSet;

use crate::{Image, Moment, Thread};

use super::{
    HEAD, Heap,
    cache_list::{self, Cache, form},
    chunks::{Chunk, Mark, Place},
    tls,
};

/// Blocks of the size of a cache that are looked at, at most.
const MOST_LOOKED_AT: usize = 1 << 16;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    /// How many.
    pub count: usize,
    /// Of these, of threads that are no more.
    pub orphaned: usize,
    /// Whether links in them, and in fast bins, are mangled by their place; unknown if all are empty.
    pub is_mangled: Option<bool>,
}

/// A cache, and where.
struct Found {
    /// How far below the thread pointer the word lies that leads to it.
    offset: u64,
    place: Place,
    chunk: Chunk,
    cache: Cache,
    is_mangled: bool,
}

/// Marks caches, and the blocks in them.
pub fn mark(moment: &Moment<'_>, heap: &mut Heap, image: &Image) -> Caches {
    let mut named: Vec<Found> = Vec::new();
    for thread in moment.threads() {
        match of_thread(moment, heap, thread) {
            Seen::Cache(found) => named.push(*found),
            Seen::Nothing => {}
            Seen::Broken(at) => {
                let why = format!("the cache of thread {} at {at:#x} is not one", thread.tid);
                heap.walk.doubt(None, why);
            }
        }
    }
    check_places(moment, heap, image, &named);
    let votes = |mangled: bool| {
        let those = named.iter().filter(|found| found.is_mangled == mangled);
        those.map(|found| found.cache.blocks.len()).sum::<usize>()
    };
    let (for_it, against) = (votes(true), votes(false));
    let is_mangled = for_it >= against;
    let known = (for_it + against > 0).then_some(is_mangled);
    let mut caches = Caches { is_mangled: known, ..Caches::default() };
    let key = named.iter().find_map(|found| found.cache.key);
    for found in named {
        // Two threads can not have one.
        if heap.chunks.find(found.chunk.at).is_some_and(|(_, chunk)| chunk.mark == Mark::Used) {
            take(heap, &found);
            caches.count += 1;
        }
    }
    for found in orphans(moment, heap, key, is_mangled) {
        take(heap, &found);
        caches.count += 1;
        caches.orphaned += 1;
    }
    caches
}

/// The word that leads to it lies at the same place of every thread: where it leads elsewhere than to a cache
/// that was found, one was missed.
fn check_places(moment: &Moment<'_>, heap: &mut Heap, image: &Image, named: &[Found]) {
    let filled = named.iter().filter(|found| !found.cache.blocks.is_empty());
    let mut offsets: Vec<u64> = filled.map(|found| found.offset).collect();
    offsets.sort_unstable();
    // The middle one is right if most are.
    let Some(&offset) = offsets.get(offsets.len() / 2) else { return };
    for thread in moment.threads() {
        let at = thread.pointer.wrapping_sub(offset);
        let Some(word) = moment.word(at).filter(|word| *word != 0) else { continue };
        let is_found = named.iter().any(|found| found.chunk.at + HEAD == word);
        // A thread that has no cache yet has one in the module that is always empty.
        if !is_found && !image.range.contains(&word) {
            let why = format!("the cache of thread {} at {word:#x} was not recognised", thread.tid);
            heap.walk.doubt(None, why);
        }
    }
}

fn take(heap: &mut Heap, found: &Found) {
    heap.chunks.mark(found.place, Mark::Cache);
    for &block in &found.cache.blocks {
        heap.chunks.mark(block, Mark::Cached);
    }
}

/// What a thread's variables lead to.
enum Seen {
    /// Its cache.
    Cache(Box<Found>),
    /// A block of the size of a cache that is none.
    Broken(u64),
    /// No such block.
    Nothing,
}

/// The cache of a thread, if it has one.
fn of_thread(moment: &Moment<'_>, heap: &Heap, thread: &Thread) -> Seen {
    let words = tls::words(moment, thread.pointer);
    let mut seen = HashSet::new();
    let room = heap.parameters.map(|parameters| parameters.cache_count);
    let (mut empty, mut broken) = (None, None);
    let below = words.iter().rev().zip(1_u64..);
    for (&word, below) in below.filter(|(word, _)| word.is_multiple_of(HEAD) && **word > 0xffff) {
        if !seen.insert(word) {
            continue;
        }
        let Some((place, chunk)) = heap.chunks.find(word - HEAD) else { continue };
        if chunk.mark != Mark::Used || form(chunk.size).is_none() {
            continue;
        }
        broken = broken.or(Some(word));
        for is_mangled in [true, false] {
            let Some(cache) =
                cache_list::read(moment, &heap.chunks, word, chunk.size, is_mangled, room)
            else {
                continue;
            };
            let found = Found { offset: below * 8, place, chunk, cache, is_mangled };
            match found.cache.blocks.is_empty() {
                // Any block of zeroes looks like one that is empty.
                true => empty = empty.or(Some(found)),
                false => return Seen::Cache(Box::new(found)),
            }
            break;
        }
    }
    match (empty, broken) {
        (Some(found), _) => Seen::Cache(Box::new(found)),
        (None, Some(at)) => Seen::Broken(at),
        (None, None) => Seen::Nothing,
    }
}

/// Those that no thread names. They are not empty, their counts are right, and their blocks have the key
/// that all have, or in old releases their own address.
fn orphans(moment: &Moment<'_>, heap: &Heap, key: Option<u64>, is_mangled: bool) -> Vec<Found> {
    let room = heap.parameters.map(|parameters| parameters.cache_count);
    let mut all = Vec::new();
    let own = heap.chunks.segments.iter().flat_map(|segment| segment.all());
    let candidates = own.filter(|c| c.mark == Mark::Used && form(c.size).is_some());
    for chunk in candidates.take(MOST_LOOKED_AT) {
        let at = chunk.at + HEAD;
        let cache = cache_list::read(moment, &heap.chunks, at, chunk.size, is_mangled, room);
        let is_one = |cache: &Cache| {
            let is_own = cache.key.is_some_and(|own| Some(own) == key || own == at);
            !cache.blocks.is_empty() && cache.uneven == 0 && is_own
        };
        if let Some(cache) = cache.filter(is_one)
            && let Some((place, chunk)) = heap.chunks.find(chunk.at)
        {
            all.push(Found { offset: 0, place, chunk, cache, is_mangled });
        }
    }
    all
}
