//! The unwind tables that the injector made, and the cache in front of them.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use heapattach_abi::{control, region, stacks, unwind};

use crate::{arch, cells::Cells, shared_word::Place};

/// The tables of one generation; 0: there are none.
pub(crate) struct Tables {
    region: Place,
    directory: Place,
    pub generation: u64,
    /// Something was loaded that they do not know: only what they say of modules that stay is true.
    pub is_stale: bool,
    /// What the generation does to places in the cache.
    salt: u64,
}

impl Tables {
    #[inline]
    pub(crate) fn newest(cells: &Cells) -> Self {
        let region = cells.region();
        // Before the directory: it is at least as new.
        let seen = region.at(region::LOADS_SEEN).word().load(Acquire);
        let loads = cells.control().at(control::LOADS).get();
        let is_stale = loads != 0 && arch::read(loads) != seen;
        let offset = region.at(region::DIRECTORY).word().load(Acquire);
        let directory = region.at(offset as usize);
        let generation = if offset == 0 { 0 } else { directory.get() };
        let is_stale = is_stale && generation != 0;
        let salt = unwind::salt(generation);
        // By this salt only the rules of modules that stay are in the cache.
        let salt = if is_stale { !salt } else { salt };
        Self { region, directory, generation, is_stale, salt }
    }

    /// What hashes of stacks begin with: the same addresses may be other code by other tables.
    pub(crate) fn hash_start(&self) -> u64 {
        let epoch =
            if self.generation == 0 { 0 } else { self.directory.at(unwind::EPOCH_AT).get() };
        stacks::hash_start(epoch)
    }

    /// The number of the module that an address belongs to; 0 if it stays, or is in none.
    pub(crate) fn number(&self, at: u64) -> u64 {
        self.entry(at).map_or(0, |entry| entry.at(unwind::NUMBER_AT).get())
    }

    /// The rule for an address, packed, if its module stays; by tables that are stale.
    pub(crate) fn lasting(&self, at: u64) -> Option<u32> {
        let known = self.cached(at);
        if known != unwind::NONE {
            return Some(known);
        }
        let entry = self.entry(at).filter(|entry| entry.at(unwind::NUMBER_AT).get() == 0)?;
        let rule = self.rule_in(entry, at);
        if rule != unwind::NONE {
            self.cache(at, rule);
        }
        Some(rule)
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
        self.cache(at, packed);
        packed
    }

    fn cache(&self, at: u64, packed: u32) {
        let (slot, tag) = unwind::cached(at, self.salt);
        let cached = self.region.at(region::CACHE_AT + slot * 8);
        cached.set(tag << unwind::RULE_BITS | u64::from(packed));
    }

    fn find(&self, at: u64) -> Option<u32> {
        let rule = self.rule_in(self.entry(at)?, at);
        (rule != unwind::NONE).then_some(rule)
    }

    /// The module that an address belongs to.
    fn entry(&self, at: u64) -> Option<Place> {
        if self.generation == 0 {
            return None;
        }
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
        (at < entry.at(8).get()).then_some(entry)
    }

    /// The rule that a module has for an address in it, packed.
    fn rule_in(&self, entry: Place, at: u64) -> u32 {
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
        (word(row) >> 32) as u32
    }
}
