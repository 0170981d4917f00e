//! Finds its books among the variables of modules: the lists of pools that blocks are left in, by their
//! shape, and the table of arenas, by what these pools say.

use std::ops::Range;

use heapattach_process::little_endian::u64_at;

use crate::Moment;

use super::{
    arena::{ENTRY, Entry},
    pool::{CLASSES, HEAD, Pool},
};

/// From the head of a list to where the pools' own links would lie.
const LINKS: u64 = 16;
const PAGE: u64 = 4096;
/// A table of arenas begins with so many entries, and doubles.
const FIRST_ENTRIES: u64 = 16;
/// No more entries are looked at: they could have 1 TiB.
const MOST_ENTRIES: u64 = 1 << 20;
/// So many doublings may have no arena in them.
const EMPTY_DOUBLINGS: u32 = 3;

/// The books of one heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Books {
    /// Where the lists are: two words each.
    pub lists: u64,
    /// Where the table of arenas is.
    pub table: u64,
    /// The length of a pool.
    pub pool: u64,
}

/// What was found in the variables of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A heap.
    Books(Books),
    /// Lists of pools, but no table of arenas.
    NoTable,
}

impl Books {
    /// All heaps of a moment.
    pub fn find(moment: &Moment<'_>) -> Vec<Found> {
        let mut found = Vec::new();
        for data in moment.images().iter().flat_map(|image| &image.data) {
            for part in moment.present(data) {
                let mut at = part.start.next_multiple_of(8);
                let length = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
                let Some(bytes) = moment.bytes(part.start, length) else { continue };
                while let Some(word) = word_of(&bytes, part.start, at) {
                    let first = (word == at.wrapping_sub(LINKS) || is_page(word))
                        .then(|| sample(moment, at, &part))
                        .flatten();
                    match first {
                        Some(pools) if !pools.is_empty() => {
                            found.push(Self::with_table(moment, at, &pools, data));
                            at += CLASSES * LINKS;
                        }
                        _ => at += 8,
                    }
                }
            }
        }
        found
    }

    /// The table of arenas: a word of the same variables leads to it.
    fn with_table(
        moment: &Moment<'_>,
        lists: u64,
        pools: &[(u64, Pool)],
        data: &Range<u64>,
    ) -> Found {
        let length = pools.first().and_then(|(_, pool)| pool.length()).unwrap_or(PAGE);
        let is_table = |table: u64| {
            pools.iter().all(|(at, pool)| {
                let entry = Entry::read(moment, entry_at(table, pool.arena));
                let range = entry.and_then(|entry| entry.range(moment, length));
                range.is_some_and(|range| range.contains(at))
            })
        };
        for part in moment.present(data) {
            let words = (part.start.next_multiple_of(8)..part.end).step_by(8);
            let table = words.filter_map(|at| moment.word(at)).find(|&word| {
                let region = || moment.region(word).is_some_and(|one| one.is_private_memory());
                word.is_multiple_of(16) && region() && is_table(word)
            });
            if let Some(table) = table {
                return Found::Books(Self { lists, table, pool: length });
            }
        }
        Found::NoTable
    }

    /// The entries of the table that have an arena, by number; the numbers of those that contradict
    /// themselves.
    pub fn entries(&self, moment: &Moment<'_>) -> (Vec<(u64, Entry)>, Vec<u64>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        let (mut from, mut to, mut empty) = (0, FIRST_ENTRIES, 0);
        // What lies behind the table is no entry of it: it is kept apart until an arena follows.
        let mut doubtful = Vec::new();
        while to <= MOST_ENTRIES && empty <= EMPTY_DOUBLINGS {
            let before = good.len();
            for number in from..to {
                let Some(entry) = Entry::read(moment, entry_at(self.table, number)) else {
                    return (good, bad);
                };
                match entry.range(moment, self.pool) {
                    _ if entry.address == 0 => {}
                    Some(range) if entry.has_pools_of(moment, &range, self.pool, number) => {
                        good.push((number, entry));
                    }
                    _ => doubtful.push(number),
                }
            }
            match good.len() > before {
                true => {
                    empty = 0;
                    bad.append(&mut doubtful);
                }
                false => empty += 1,
            }
            (from, to) = (to, to * 2);
        }
        (good, bad)
    }

    /// Pools that are in the lists, `most` at most; none if a list does not close.
    pub fn listed(&self, moment: &Moment<'_>, most: usize) -> Option<Vec<(u64, u64)>> {
        let mut pools = Vec::new();
        for class in 0..CLASSES {
            let head = self.lists + class * LINKS - LINKS;
            let (mut before, mut at) = (head, moment.word(head + LINKS)?);
            while at != head {
                let is_linked = moment.word(at.checked_add(24)?)? == before;
                if !is_linked || pools.len() >= most {
                    return None;
                }
                pools.push((at, class));
                (before, at) = (at, moment.word(at + 16)?);
            }
        }
        Some(pools)
    }
}

fn entry_at(table: u64, number: u64) -> u64 {
    table.saturating_add(number.saturating_mul(ENTRY))
}

fn is_page(word: u64) -> bool {
    word != 0 && word.is_multiple_of(PAGE)
}

fn word_of(bytes: &[u8], start: u64, at: u64) -> Option<u64> {
    u64_at(bytes, usize::try_from(at.checked_sub(start)?).ok()?)
}

/// The first pool of each list, if the lists are there: each leads to itself, or to a pool of its size that
/// leads back. One may be amid a change.
fn sample(moment: &Moment<'_>, lists: u64, within: &Range<u64>) -> Option<Vec<(u64, Pool)>> {
    let head = |class: u64| lists + class * LINKS - LINKS;
    let mut pools: Vec<(u64, Pool)> = Vec::new();
    let mut wrong = 0;
    if lists < LINKS || lists + CLASSES * LINKS > within.end {
        return None;
    }
    for class in 0..CLASSES {
        let (next, previous) = (moment.word(head(class) + 16)?, moment.word(head(class) + 24)?);
        if (next, previous) == (head(class), head(class)) {
            continue;
        }
        let pool = (is_page(next) && is_page(previous)).then(|| moment.bytes(next, 48)).flatten();
        let pool = pool.and_then(|bytes| Pool::parse(&bytes)).filter(|pool| {
            pool.previous == head(class)
                && pool.class == class
                && pool.uncut >= HEAD
                && pool.length().is_some_and(|length| next.is_multiple_of(length))
        });
        match pool {
            Some(pool) => pools.push((next, pool)),
            None => wrong += 1,
        }
        if wrong > 1 {
            return None;
        }
    }
    let length = pools.first().and_then(|(_, pool)| pool.length());
    pools.iter().all(|(_, pool)| pool.length() == length).then_some(pools)
}
