//! An arena: memory that was mapped in one piece, and its entry in the table.

use std::{collections::HashSet, ops::Range};

use heapattach_process::little_endian::u64_at;

use crate::{Moment, walkers::is_private};

use super::pool::Pool;

/// The length of an entry.
pub(super) const ENTRY: u64 = 48;
/// Pools of an arena.
const POOLS: u64 = 64;

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where its memory is; 0 if it has none.
    pub address: u64,
    /// Where the pools end that were cut once.
    pub cut: u64,
    /// Pools that have no block in use.
    pub free_pools: u64,
    /// All pools.
    pub pools: u64,
    /// The first of the free pools that were cut.
    pub first_free: u64,
}

impl Entry {
    /// Reads it.
    pub fn read(moment: &Moment<'_>, at: u64) -> Option<Self> {
        let [address, cut, counts, first_free] = [
            moment.word(at)?,
            moment.word(at.checked_add(8)?)?,
            moment.word(at.checked_add(16)?)?,
            moment.word(at.checked_add(24)?)?,
        ];
        let (free_pools, pools) = (counts & u64::from(u32::MAX), counts >> 32);
        Some(Self { address, cut, free_pools, pools, first_free })
    }

    /// Its memory, if its numbers agree and all of it is private memory.
    pub fn range(&self, moment: &Moment<'_>, pool: u64) -> Option<Range<u64>> {
        let range = self.address..self.address.checked_add(POOLS * pool)?;
        // What does not begin at a multiple of the length of a pool has a pool less.
        let pools = POOLS - u64::from(!self.address.is_multiple_of(pool));
        let agrees = self.address.is_multiple_of(4096)
            && self.pools == pools
            && self.free_pools <= pools
            && self.cut.is_multiple_of(pool)
            && (first_pool(&range, pool)..=last_end(&range, pool)).contains(&self.cut);
        (agrees && is_private(moment, &range)).then_some(range)
    }

    /// Whether the pools that were cut say that they are of this arena.
    pub fn has_pools_of(
        &self,
        moment: &Moment<'_>,
        range: &Range<u64>,
        pool: u64,
        number: u64,
    ) -> bool {
        let start = first_pool(range, pool);
        let step = usize::try_from(pool).unwrap_or(usize::MAX);
        let says = |at: u64| moment.word(at + 32).is_some_and(|word| word << 32 >> 32 == number);
        let wrong = (start..self.cut).step_by(step).filter(|&at| !says(at)).count();
        self.cut > start && wrong <= 1
    }

    /// The free pools that are in its list; none if that leads anywhere else.
    fn free_list(&self, start: u64, pool: u64, bytes: &[u8]) -> Option<HashSet<u64>> {
        let mut free = HashSet::new();
        let mut at = self.first_free;
        while at != 0 {
            let is_pool = at >= start && at < self.cut && (at - start).is_multiple_of(pool);
            if !is_pool || !free.insert(at) {
                return None;
            }
            at = u64_at(bytes, usize::try_from(at - self.address).ok()? + 16)?;
        }
        Some(free)
    }
}

/// Where its first pool is.
pub(super) fn first_pool(range: &Range<u64>, pool: u64) -> u64 {
    range.start.next_multiple_of(pool)
}

/// Where its last pool ends.
pub(super) fn last_end(range: &Range<u64>, pool: u64) -> u64 {
    range.end - range.end % pool
}

/// An arena that was read.
pub(super) struct Arena {
    /// Its memory.
    pub range: Range<u64>,
    /// The pools with blocks in use, by address; of those that contradict themselves no blocks.
    pub pools: Vec<(u64, Pool, Option<Vec<bool>>)>,
    /// What is not cut into blocks.
    pub uncut: Vec<Range<u64>>,
    /// Pools without a block in use, as they were found.
    pub free_pools: u64,
    /// By how many blocks the counts of pools differ from what is in use.
    pub differing: u64,
}

impl Arena {
    /// Reads it. None if it cannot be read.
    pub fn read(moment: &Moment<'_>, entry: &Entry, range: Range<u64>, pool: u64) -> Option<Self> {
        let length = usize::try_from(range.end - range.start).ok()?;
        let bytes = moment.bytes(range.start, length)?;
        let start = first_pool(&range, pool);
        let end = last_end(&range, pool);
        let listed = entry.free_list(start, pool, &bytes);
        let mut arena = Self {
            pools: Vec::new(),
            uncut: Vec::new(),
            free_pools: (end - entry.cut) / pool,
            differing: 0,
            range,
        };
        let mut at = start;
        while at < entry.cut {
            let place = usize::try_from(at - arena.range.start).ok()?;
            let own = bytes.get(place..place + usize::try_from(pool).ok()?)?;
            let head = Pool::parse(own)?;
            let is_free = listed.as_ref().is_some_and(|listed| listed.contains(&at));
            match is_free {
                true => {
                    arena.free_pools += 1;
                    arena.differing += head.count;
                    arena.uncut.push(at..at + pool);
                }
                false => arena.add(at, head, own, pool),
            }
            at += pool;
        }
        arena.uncut.extend((entry.cut < end).then_some(entry.cut..end));
        Some(arena)
    }

    fn add(&mut self, at: u64, head: Pool, own: &[u8], pool: u64) {
        let free = (head.length() == Some(pool)).then(|| head.free_blocks(at, own)).flatten();
        let in_use = |free: &Vec<bool>| free.iter().filter(|is_free| !**is_free).count() as u64;
        let differs = free.as_ref().map(|free| in_use(free).abs_diff(head.count));
        // A pool without a block in use would be in the list of free ones.
        self.differing += differs.unwrap_or(head.cut().max(2)).max(u64::from(head.count == 0));
        if free.is_some() && head.uncut <= head.last {
            self.uncut.push(at + head.uncut..at + head.last + head.size());
        }
        // More than one call can have changed: nothing is told of its blocks.
        self.pools.push((at, head, free.filter(|_| differs.is_some_and(|by| by <= 1))));
    }

    /// Where the pools lie that blocks can be allocated from, with their sizes.
    pub fn partial(&self) -> impl Iterator<Item = (u64, u64)> {
        let partial = self.pools.iter().filter(|(_, head, _)| !head.is_full());
        partial.map(|(at, head, _)| (*at, head.class))
    }
}
