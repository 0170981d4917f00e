//! The allocator of CPython for blocks of at most 512 bytes: an inner heap, in memory that it maps. Read
//! without symbols and without a table of releases (3.8 and later).
//!
//! ```text
//! variables of a module -> lists of pools (by shape) -> table of arenas (by what the pools say)
//! arenas -> pools -> blocks in use, free lists
//! ```
//!
//! Checked each time: the blocks in use of each pool against its count, free pools against the count of
//! their arena, pools with blocks left against the lists. Blocks of a pool that contradicts itself are not
//! told. Blocks of larger sizes are the C library's.

mod arena;
mod books;
mod pool;

#[cfg(test)]
mod synthetic_tests;

use std::collections::{BTreeMap, HashSet};

use arena::Arena;
use books::{Books, Found};
use pool::HEAD;

use crate::{Answer, Arena as Told, Block, Check, Moment, Sink, State, Walk, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Pymalloc;

/// No more heaps of a process are told: each is of an interpreter.
const MOST_HEAPS: usize = 16;

impl Walker for Pymalloc {
    fn name(&self) -> &'static str {
        "pymalloc"
    }

    fn is_inner(&self) -> bool {
        true
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let found = Books::find(moment);
        let known = found.iter().filter_map(|found| match found {
            Found::Books(books) => Some(books),
            Found::NoTable => None,
        });
        let mut heaps = known.peekable();
        if heaps.peek().is_none() {
            return match found.is_empty() {
                true => Answer::Absent,
                false => Answer::Refused("its table of arenas was not found".to_owned()),
            };
        }
        // One thread at a time is in the interpreter: no more than one block is in flight.
        let is_running = moment.threads().iter().any(|thread| thread.call.is_none());
        let mut walk = Walk { in_flight: u64::from(is_running), ..Walk::default() };
        let mut taken = BTreeMap::new();
        for books in heaps.take(MOST_HEAPS) {
            let layout = if books.pool == 4096 { "3.8 or 3.9" } else { "3.10 or later" };
            walk.layout = format!("pymalloc of CPython {layout}");
            let number = u32::try_from(walk.arenas.len()).unwrap_or(u32::MAX);
            let told = heap(moment, books, number, &mut walk, &mut taken, sink);
            walk.arenas.push(told);
        }
        if found.contains(&Found::NoTable) {
            let why = "the arenas of another interpreter were not found".to_owned();
            walk.doubt(None, why);
        }
        Answer::Walked(walk)
    }
}

/// One heap: all of its arenas are told as one.
fn heap(
    moment: &Moment<'_>,
    books: &Books,
    number: u32,
    walk: &mut Walk,
    taken: &mut BTreeMap<u64, u64>,
    sink: &mut dyn Sink,
) -> Told {
    let name = if number == 0 { "main".to_owned() } else { format!("heap {number}") };
    let mut told = Told { name, at: books.table, ..Told::default() };
    let (mut entries, bad) = books.entries(moment);
    if let Some(first) = bad.first() {
        let why = format!("{} arenas contradict their books, the first is {first}", bad.len());
        walk.doubt(Some(number), why);
    }
    entries.sort_by_key(|(_, entry)| entry.address);
    let (mut partial, mut overlapping) = (HashSet::new(), 0);
    let (mut differing, mut free_pools, mut free_told, mut system) = (0, 0, 0, 0);
    for (_, entry) in entries {
        let Some(range) = entry.range(moment, books.pool) else { continue };
        let before = taken.range(..range.end).next_back();
        let is_taken = before.is_some_and(|(_, end)| *end > range.start);
        let arena = (!is_taken).then(|| Arena::read(moment, &entry, range, books.pool)).flatten();
        let Some(arena) = arena else {
            overlapping += 1;
            continue;
        };
        differing += arena.differing;
        free_pools += arena.free_pools;
        free_told += entry.free_pools;
        partial.extend(arena.partial());
        system += arena.range.end - arena.range.start;
        taken.insert(arena.range.start, arena.range.end);
        tell(&arena, number, &mut told, sink);
    }
    if overlapping > 0 {
        walk.doubt(Some(number), format!("{overlapping} arenas overlap others: corrupted?"));
    }
    told.system = Some(system);
    let slack = walk.in_flight;
    let mut check = |what, found, told, slack| {
        walk.check(Some(number), Check { what, found, told, slack });
    };
    check("blocks in use of pools, and their counts: differences", differing, 0, slack);
    check("free pools, and the arenas' counts", free_pools, free_told, slack);
    let listed = books.listed(moment, partial.len().saturating_add(2)).unwrap_or_default();
    let listed: HashSet<(u64, u64)> = listed.into_iter().collect();
    let wrong = listed.symmetric_difference(&partial).count() as u64;
    check("pools with blocks left that are not in one list", wrong, 0, slack);
    told
}

/// The blocks of an arena, and what it has.
fn tell(arena: &Arena, number: u32, told: &mut Told, sink: &mut dyn Sink) {
    let mut blocks = 0;
    for (at, pool, free) in &arena.pools {
        let size = pool.size();
        for (place, is_free) in (0..).zip(free.iter().flatten()) {
            let state = if *is_free { State::Free } else { State::Used };
            let at = at + HEAD + place * size;
            told.bytes.add(state, size);
            blocks += size;
            let class = u32::try_from(pool.class).unwrap_or(0);
            sink.block(Block { at, size, state, arena: number, class });
        }
    }
    let uncut: u64 = arena.uncut.iter().map(|range| range.end - range.start).sum();
    let whole = arena.range.end - arena.range.start;
    told.bytes.top += uncut;
    told.bytes.books += whole.saturating_sub(blocks + uncut);
    told.top.extend(arena.uncut.iter().cloned());
    told.memory.push(arena.range.clone());
}
