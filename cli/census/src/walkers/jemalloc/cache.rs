//! Caches of threads: free blocks that only their thread can have.

use std::collections::{BTreeSet, HashSet};

use heapattach_process::little_endian::u64_at;

use crate::Moment;

use super::{
    arena::Arenas,
    classes::Quantum,
    layout::{CACHE_BIN_WORDS, Layout},
};

/// No more threads are believed in.
const MOST_CACHES: u64 = 1 << 17;
/// Nor in more blocks.
const MOST_BLOCKS: usize = 1 << 24;

/// What all caches have.
#[derive(Debug, Default)]
pub struct Caches {
    /// Free blocks, and the class each is believed to be of.
    pub blocks: Vec<(u64, u32)>,
    /// Addresses inside of blocks that the allocator has itself, for the caches' own stacks.
    pub own: BTreeSet<u64>,
    /// How many there are.
    pub count: u64,
    /// Lists that could not be followed to their end.
    pub broken: u64,
}

impl Caches {
    /// Those of all arenas.
    pub fn read(moment: &Moment<'_>, arenas: &Arenas, quantum: Quantum) -> Self {
        let mut caches = Self::default();
        let mut seen = HashSet::new();
        for arena in arenas.at.values() {
            let first = moment.word(arena + arenas.layout.caches).unwrap_or(0);
            let mut at = first;
            while at != 0 && caches.count < MOST_CACHES && caches.blocks.len() < MOST_BLOCKS {
                let words = moment.words(at, 3).filter(|_| seen.insert(at));
                let Some([next, _, bins]) = words.as_deref() else {
                    caches.broken += 1;
                    break;
                };
                caches.count += 1;
                if caches.add(moment, *bins, arenas.layout, quantum).is_none() {
                    caches.broken += 1;
                }
                at = if *next == first { 0 } else { *next };
            }
        }
        caches.blocks.sort_unstable();
        caches
    }

    fn add(
        &mut self,
        moment: &Moment<'_>,
        at: u64,
        layout: &Layout,
        quantum: Quantum,
    ) -> Option<()> {
        let count = layout.cache_bins(quantum);
        let words = moment.words(at, CACHE_BIN_WORDS * usize::try_from(count).ok()?)?;
        let (bins, _) = words.as_chunks::<CACHE_BIN_WORDS>();
        for (class, [head, _, ends]) in (0..).zip(bins) {
            // The stack ends where its address has these low bits; it is shorter than they can tell.
            let bytes = (ends >> 32).wrapping_sub(*head) & 0xffff;
            if *head < 4096 || !bytes.is_multiple_of(8) || bytes > 8 << 12 {
                continue;
            }
            if class == 0 {
                self.own.insert(*head);
            }
            let stack = moment.bytes(*head, usize::try_from(bytes).ok()?)?;
            let blocks = (0..stack.len()).step_by(8).filter_map(|at| u64_at(&stack, at));
            self.blocks.extend(blocks.map(|block| (block, class)));
        }
        Some(())
    }
}
