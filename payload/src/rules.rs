//! The unwind tables that the injector made, and the cache in front of them.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use heapattach_abi::{region, unwind};

use crate::{cells::Cells, place::Place};

/// The tables of one generation; 0: there are none.
pub(crate) struct Tables {
    region: Place,
    directory: Place,
    pub generation: u64,
    /// What the generation does to places in the cache.
    salt: u64,
}

impl Tables {
    #[inline]
    pub(crate) fn newest(cells: &Cells) -> Self {
        let region = cells.region();
        let offset = region.at(region::DIRECTORY).word().load(Acquire);
        let directory = region.at(offset as usize);
        let generation = if offset == 0 { 0 } else { directory.get() };
        Self { region, directory, generation, salt: unwind::salt(generation) }
    }

    /// The rule for an address, packed, if the cache has it.
    #[inline(always)]
    pub(crate) fn cached(&self, at: u64) -> u32 {
        let (slot, tag) = unwind::cached(at, self.salt);
        let word = self.region.at(region::CACHE_AT + slot * 8).get();
        let packed = word as u32 & ((1 << unwind::RULE_BITS) - 1);
        if word >> unwind::RULE_BITS == tag { packed } else { unwind::NONE }
    }

    /// The rule for an address, packed.
    pub(crate) fn rule(&self, at: u64) -> u32 {
        match self.cached(at) {
            unwind::NONE => self.find_and_cache(at),
            packed => packed,
        }
    }

    #[cold]
    #[inline(never)]
    fn find_and_cache(&self, at: u64) -> u32 {
        // What is not found may be there a moment later: that is never remembered.
        if self.generation == 0 {
            return unwind::NONE;
        }
        let Some(packed) = self.find(at) else { return unwind::NONE };
        let (slot, tag) = unwind::cached(at, self.salt);
        let cached = self.region.at(region::CACHE_AT + slot * 8);
        cached.set(tag << unwind::RULE_BITS | u64::from(packed));
        packed
    }

    fn find(&self, at: u64) -> Option<u32> {
        let count = (self.directory.at(8).get() as usize).min(unwind::MODULES);
        let entry = |n: usize| self.directory.at(unwind::DIRECTORY_HEAD + n * unwind::ENTRY_BYTES);
        // The last module that begins at or before the address.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle).get() <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let entry = entry(low.checked_sub(1)?);
        if at >= entry.at(8).get() {
            return None;
        }
        let offset = at - entry.get();
        let index = self.region.at(entry.at(16).get() as usize);
        let rows = self.region.at(entry.at(24).get() as usize);
        let page = (offset >> unwind::PAGE_SHIFT) as usize * unwind::PAGE_BYTES;
        let mut row = index.at(page).half().load(Relaxed) as usize;
        let word = |row: usize| rows.at(row * unwind::ROW_BYTES).get();
        for _ in 0..unwind::LOOKS {
            if u64::from(word(row + 1) as u32) > offset {
                break;
            }
            row += 1;
        }
        let rule = (word(row) >> 32) as u32;
        (rule != unwind::NONE).then_some(rule)
    }
}
