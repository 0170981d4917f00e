//! What a walker answers besides the blocks: the books of the arenas, and how far it can be trusted.

use std::ops::Range;

use serde::Serialize;

use crate::{Moment, Sink};

/// A kind of allocator.
pub trait Walker: Sync {
    /// Its name in reports: `glibc`, `jemalloc`.
    fn name(&self) -> &'static str;

    /// Looks for it in a moment and gives every block to `sink`. Bounded by the memory that there is;
    /// bytes of the target may be anything.
    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer;

    /// Whether it is a heap within a program's own memory, whose objects can be led to by pointers into
    /// the middle of their blocks.
    fn is_inner(&self) -> bool {
        false
    }

    /// Whether its size classes are further apart than 16 bytes.
    fn has_wide_classes(&self) -> bool {
        !self.is_inner()
    }

    /// Whether only processes with musl have it. Elsewhere, what looks like its books is chance.
    fn is_musl_only(&self) -> bool {
        false
    }

    /// Whether a call that a thread is in the middle of can have many blocks on their way to or from a cache,
    /// not only the one that it is about.
    fn moves_batches(&self) -> bool {
        !self.is_inner()
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The process has no such allocator.
    Absent,
    /// It is there, and nothing can be said: why. The sink got no block.
    Refused(String),
    /// The sink got all blocks that are known.
    Walked(Walk),
}

/// A finished walk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Walk {
    /// The release or layout, as far as it shows: `glibc, malloc of 2.27 to 2.42`.
    pub layout: String,
    /// The arenas. Blocks name them by their index.
    pub arenas: Vec<Arena>,
    /// How far it can be trusted.
    pub trust: Trust,
    /// What was checked.
    pub checks: Vec<Check>,
    /// Threads that are in the middle of a call of the allocator: so many blocks may be in flight.
    pub in_flight: u64,
    /// What is worth a line besides: `8,192 bytes of other users of sbrk`.
    pub notes: Vec<String>,
}

/// What an arena has, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Arena {
    /// What it is called: `main`, `thread 3`.
    pub name: String,
    /// The address of its books, or 0.
    #[serde(skip)]
    pub at: u64,
    /// The memory that blocks are allocated from and that is its own; ascending.
    #[serde(skip)]
    pub memory: Vec<Range<u64>>,
    /// The parts of it that were never cut into blocks.
    #[serde(skip)]
    pub top: Vec<Range<u64>>,
    /// Memory of its own that only has books.
    #[serde(skip)]
    pub books: Vec<Range<u64>>,
    /// The bytes that it has from the system, as it counts them itself, if it does.
    pub system: Option<u64>,
    /// What it has of each kind.
    pub bytes: Bytes,
}

/// Bytes and blocks by what they are for. Their sum is what an arena has from the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Blocks that the program has, and their usable bytes.
    pub used_blocks: u64,
    /// See `used_blocks`.
    pub used: u64,
    /// Free blocks in lists, and their usable bytes.
    pub free_blocks: u64,
    /// See `free_blocks`.
    pub free: u64,
    /// Free blocks in caches of threads.
    pub cached_blocks: u64,
    /// See `cached_blocks`.
    pub cached: u64,
    /// What was never cut into blocks: glibc's top, unused slabs.
    pub top: u64,
    /// The allocator's own bytes: heads of blocks, bitmaps, fences, padding.
    pub books: u64,
}

impl Bytes {
    /// Counts a block.
    pub fn add(&mut self, state: crate::State, size: u64) {
        let (blocks, bytes) = match state {
            crate::State::Used => (&mut self.used_blocks, &mut self.used),
            crate::State::Free => (&mut self.free_blocks, &mut self.free),
            crate::State::Cached => (&mut self.cached_blocks, &mut self.cached),
        };
        *blocks += 1;
        *bytes = bytes.saturating_add(size);
    }

    /// Counts all of another.
    pub fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.used_blocks, other.used_blocks),
            (&mut self.used, other.used),
            (&mut self.free_blocks, other.free_blocks),
            (&mut self.free, other.free),
            (&mut self.cached_blocks, other.cached_blocks),
            (&mut self.cached, other.cached),
            (&mut self.top, other.top),
            (&mut self.books, other.books),
        ];
        pairs.into_iter().for_each(|(own, more)| *own = own.saturating_add(more));
    }

    /// All of it.
    pub fn all(&self) -> u64 {
        [self.used, self.free, self.cached, self.top, self.books]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// How far a walk can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "doubts")]
pub enum Trust {
    /// Every block is told, as it is.
    #[default]
    Exact,
    /// It is, but for what is named.
    Inexact(Vec<Doubt>),
}

/// What is not certain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// The arena, if it is one alone.
    pub arena: Option<u32>,
    /// What was found: `the chunk at 0x55d0c2a3f2a0 has size 0: corrupted?`
    pub why: String,
}

/// Two numbers of different sources that would differ if the walk were wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was compared: `mapped blocks, and the allocator's count`.
    pub what: &'static str,
    /// What the walk found.
    pub found: u64,
    /// What the allocator says.
    pub told: u64,
    /// By how much they may differ: threads that are in the middle of a call.
    pub slack: u64,
}

impl Check {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.found.abs_diff(self.told) <= self.slack
    }
}

impl Walk {
    /// What all arenas have.
    pub fn bytes(&self) -> Bytes {
        let mut sum = Bytes::default();
        self.arenas.iter().for_each(|arena| sum.merge(&arena.bytes));
        sum
    }

    /// Notes a doubt.
    pub fn doubt(&mut self, arena: Option<u32>, why: String) {
        let doubt = Doubt { arena, why };
        match &mut self.trust {
            Trust::Exact => self.trust = Trust::Inexact(vec![doubt]),
            Trust::Inexact(doubts) => doubts.push(doubt),
        }
    }

    /// Notes what was compared; if it does not hold, that is a doubt.
    pub fn check(&mut self, arena: Option<u32>, check: Check) {
        if !check.holds() {
            let Check { what, found, told, .. } = check;
            let again = match self.in_flight {
                0 => String::new(),
                some => format!(" ({some} threads may be in the middle of a call: look again)"),
            };
            self.doubt(arena, format!("{what}: {found} found, {told} told{again}"));
        }
        self.checks.push(check);
    }

    /// Why blocks may be in another state than they are told: a check of `walker`'s does not hold, or threads
    /// are in the middle of moving many at once.
    #[must_use]
    pub fn uncertainty(&self, walker: &dyn Walker) -> Option<String> {
        match &self.trust {
            Trust::Inexact(doubts) => {
                Some(doubts.first().map_or_else(String::new, |doubt| doubt.why.clone()))
            }
            Trust::Exact if self.in_flight > 0 && walker.moves_batches() => {
                Some("threads were about to move blocks from or to their caches".to_owned())
            }
            Trust::Exact => None,
        }
    }

    /// Whether everything told is certain.
    pub fn is_exact(&self) -> bool {
        self.trust == Trust::Exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_does_not_hold_is_a_doubt() {
        let mut walk = Walk::default();
        walk.check(None, Check { what: "blocks", found: 3, told: 4, slack: 1 });
        assert!(walk.is_exact());
        walk.check(Some(2), Check { what: "blocks", found: 3, told: 5, slack: 1 });
        let why = "blocks: 3 found, 5 told".to_owned();
        assert_eq!(walk.trust, Trust::Inexact(vec![Doubt { arena: Some(2), why }]));
        assert_eq!(walk.checks.len(), 2);
    }

    #[test]
    fn blocks_on_their_way_are_a_doubt_where_a_call_moves_many() {
        use crate::walkers::{Glibc, Jemalloc, Zend};
        let mut walk = Walk { in_flight: 1, ..Walk::default() };
        assert_eq!(walk.uncertainty(&Glibc), None);
        assert_eq!(walk.uncertainty(&Zend), None);
        assert!(walk.uncertainty(&Jemalloc).is_some());
        walk.in_flight = 0;
        assert_eq!(walk.uncertainty(&Jemalloc), None);
        walk.doubt(None, "bin 3".to_owned());
        assert_eq!(walk.uncertainty(&Glibc).as_deref(), Some("bin 3"));
    }
}
