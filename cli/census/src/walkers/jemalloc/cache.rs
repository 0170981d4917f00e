//! Caches of threads: free blocks that only their thread can have.
//!
//! Builds with statistics have them in lists of the arenas. Without, they are recognised among the
//! thread-local variables: an array of bins whose stacks follow each other.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use heapattach_process::little_endian::u64_at;

use crate::{Moment, Window};

use super::{
    arena::Arenas,
    classes::Quantum,
    layout::{CACHE_BIN_WORDS, Layout},
};

/// No more threads are believed in.
const MOST_CACHES: u64 = 1 << 17;
/// Nor in more blocks.
const MOST_BLOCKS: usize = 1 << 24;
/// A stack has at most so many bytes.
const MOST_STACK: u64 = 8 << 12;
/// Thread-local variables lie this near to the pointer of the thread.
const NEAR: u64 = 1 << 18;
/// So many bins in a row are no chance.
const PROOF: u64 = 8;

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

/// A bin of a cache: blocks are pushed downwards.
struct Bin {
    /// The newest block's word.
    head: u64,
    /// Bytes of words with blocks.
    bytes: u64,
    /// Bytes of all words.
    room: u64,
}

impl Bin {
    fn parse([head, _, ends]: [u64; CACHE_BIN_WORDS]) -> Self {
        // The ends are told by the low bits of their addresses; no stack is longer than these can tell.
        let (empty, full) = (ends >> 32, ends >> 16);
        Self {
            head,
            bytes: empty.wrapping_sub(head) & 0xffff,
            room: empty.wrapping_sub(full) & 0xffff,
        }
    }

    fn is_sound(&self) -> bool {
        let Self { head, bytes, .. } = *self;
        head >= 4096 && head.is_multiple_of(8) && bytes.is_multiple_of(8) && bytes <= MOST_STACK
    }
}

impl Caches {
    /// Those of all arenas and threads.
    pub fn read(moment: &Moment<'_>, arenas: &Arenas, quantum: Quantum) -> Self {
        let mut caches = Self::default();
        let mut seen = HashSet::new();
        for arena in arenas.at.values() {
            let first = moment.word(arena + arenas.layout.caches).unwrap_or(0);
            let mut at = first;
            while at != 0 && caches.has_room() {
                let words = moment.words(at, 3).filter(|_| seen.insert(at));
                let Some([next, _, bins]) = words.as_deref() else {
                    caches.broken += 1;
                    break;
                };
                seen.insert(*bins);
                caches.add(moment, *bins, arenas.layout, quantum);
                at = if *next == first { 0 } else { *next };
            }
        }
        for thread in moment.threads() {
            let from = thread.pointer.saturating_sub(NEAR);
            let region = moment.region(thread.pointer.saturating_sub(8));
            let start = region.map_or(thread.pointer, |region| region.range.start.max(from));
            let bins = bins_in(moment, start..thread.pointer);
            if let Some(bins) = bins.filter(|bins| caches.has_room() && seen.insert(*bins)) {
                caches.add(moment, bins, arenas.layout, quantum);
            }
        }
        caches.blocks.sort_unstable();
        caches
    }

    fn has_room(&self) -> bool {
        self.count < MOST_CACHES && self.blocks.len() < MOST_BLOCKS
    }

    fn add(&mut self, moment: &Moment<'_>, at: u64, layout: &Layout, quantum: Quantum) {
        self.count += 1;
        if self.add_bins(moment, at, layout.cache_bins(quantum)).is_none() {
            self.broken += 1;
        }
    }

    fn add_bins(&mut self, moment: &Moment<'_>, at: u64, count: u32) -> Option<()> {
        let words = moment.words(at, CACHE_BIN_WORDS * usize::try_from(count).ok()?)?;
        let (bins, _) = words.as_chunks::<CACHE_BIN_WORDS>();
        for (class, bin) in (0..).zip(bins.iter().map(|words| Bin::parse(*words))) {
            if !bin.is_sound() {
                continue;
            }
            if class == 0 {
                self.own.insert(bin.head.saturating_add(bin.bytes).saturating_sub(8));
            }
            let stack = moment.bytes(bin.head, usize::try_from(bin.bytes).ok()?)?;
            let blocks = (0..stack.len()).step_by(8).filter_map(|at| u64_at(&stack, at));
            self.blocks.extend(blocks.map(|block| (block, class)));
        }
        Some(())
    }
}

/// The bins of a cache among the variables of a thread.
fn bins_in(moment: &Moment<'_>, variables: Range<u64>) -> Option<u64> {
    const STEP: u64 = 8 * CACHE_BIN_WORDS as u64;
    for part in moment.present(&variables) {
        let mut window = Window::new(moment, part.clone(), 1 << 16);
        for at in part.step_by(8) {
            let mut behind = 0;
            let are_bins = (0..PROOF).all(|bin| {
                let at = at + STEP * bin;
                let words = [window.word(at), window.word(at + 8), window.word(at + 16)];
                let [Some(head), Some(requests), Some(ends)] = words else { return false };
                let bin = Bin::parse([head, requests, ends]);
                let start = head.wrapping_add(bin.bytes).wrapping_sub(bin.room);
                let fits = bin.is_sound() && bin.room > 0 && bin.bytes <= bin.room;
                let gap = start.checked_sub(behind);
                let is_near = behind == 0 || gap.is_some_and(|gap| gap < 4096);
                behind = head.wrapping_add(bin.bytes);
                fits && is_near
            });
            if are_bins {
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    #[test]
    fn bins_whose_stacks_follow_each_other_are_found() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x40000);
        for bin in 0..PROOF {
            // Room for 20 blocks in each; 3 are in.
            let (start, at) = (0x30000 + 160 * bin, 0x12340 + 24 * bin);
            let empty = start + 160;
            memory.write(at, empty - 24);
            memory.write(at + 16, empty << 32 | (start & 0xffff) << 16 | empty & 0xffff);
        }
        let moment = memory.moment();
        assert_eq!(bins_in(&moment, 0x10000..0x20000), Some(0x12340));
        memory.write(0x12340 + 72, 0x30000);
        assert_eq!(bins_in(&memory.moment(), 0x10000..0x20000), None);
    }
}
