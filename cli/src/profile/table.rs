//! The live blocks by their address: a hash table with open addressing.
//!
//! Every event of the target ends in one look-up here, and at a million live blocks the table is
//! larger than the caches, so what counts is one miss a look-up and no more: the blocks lie in the
//! table itself, at most every second slot is taken, and a block is found in its home slot or close
//! behind. A removal closes the gap it makes; there are no tombstones, so the table does not age.

use std::hash::{BuildHasher, RandomState};

use heapattach_injector::addr::RemoteAddr;

use super::block::Block;

/// Slots of an empty table.
const SMALLEST: usize = 1024;

/// A table of blocks, no two at the same address.
#[derive(Debug)]
pub struct Table {
    /// A power of two of them.
    slots: Vec<Option<Block>>,
    mask: usize,
    len: usize,
    limit: usize,
    seed: u64,
}

/// The table holds as many blocks as it may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Table {
    /// An empty table that never holds more than `limit` blocks.
    pub fn new(limit: usize) -> Self {
        // The target chooses the addresses: without a seed it could choose a thousand with one
        // home, and have us walk past all of them at each event.
        let seed = RandomState::new().hash_one(0u64);
        Self { slots: vec![None; SMALLEST], mask: SMALLEST - 1, len: 0, limit, seed }
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The block at this address.
    pub fn get(&self, at: RemoteAddr) -> Option<&Block> {
        self.slots[self.find(at)].as_ref()
    }

    /// Puts a block at its address and returns the one that was there.
    ///
    /// # Errors
    ///
    /// None was there, and the table is full: it is as before.
    pub fn insert(&mut self, block: Block) -> Result<Option<Block>, Full> {
        let mut slot = self.find(block.at);
        if self.slots[slot].is_none() {
            if self.len >= self.limit {
                return Err(Full);
            }
            if (self.len + 1) * 2 > self.slots.len() {
                self.grow();
                slot = self.find(block.at);
            }
            self.len += 1;
        }
        Ok(self.slots[slot].replace(block))
    }

    /// Takes out the block at this address if `wanted` says so.
    pub fn remove_if(
        &mut self,
        at: RemoteAddr,
        wanted: impl FnOnce(&Block) -> bool,
    ) -> Option<Block> {
        let slot = self.find(at);
        let block = self.slots[slot].filter(wanted)?;
        self.close(slot);
        self.len -= 1;
        Some(block)
    }

    /// Loads the home slots of these addresses. Look-ups that follow one another wait for memory
    /// one after the other; these loads depend on nothing and wait together.
    pub fn warm(&self, addresses: impl Iterator<Item = RemoteAddr>) {
        let touched = addresses.fold(0, |sum: u64, at| {
            sum ^ self.slots[self.home(at)].map_or(0, |block| block.at.get())
        });
        std::hint::black_box(touched);
    }

    /// The slot that holds `at`, or the vacant one where it belongs. There is always a vacant one.
    fn find(&self, at: RemoteAddr) -> usize {
        let mut slot = self.home(at);
        while self.slots[slot].is_some_and(|block| block.at != at) {
            slot = (slot + 1) & self.mask;
        }
        slot
    }

    /// Addresses are arithmetic progressions; of the cheap hashes only a folded product spreads
    /// them well enough for linear probing.
    fn home(&self, at: RemoteAddr) -> usize {
        let product = u128::from(at.get() ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation, reason = "the mask keeps a few low bits anyway")]
        let folded = (product >> 64) as usize ^ product as usize;
        folded & self.mask
    }

    /// Vacates a slot and moves up the blocks behind it that were pushed past it.
    fn close(&mut self, mut hole: usize) {
        let mut slot = (hole + 1) & self.mask;
        while let Some(block) = self.slots[slot] {
            let from_home = slot.wrapping_sub(self.home(block.at)) & self.mask;
            if from_home >= slot.wrapping_sub(hole) & self.mask {
                self.slots[hole] = Some(block);
                hole = slot;
            }
            slot = (slot + 1) & self.mask;
        }
        self.slots[hole] = None;
    }

    fn grow(&mut self) {
        let slots = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![None; slots]);
        self.mask = slots - 1;
        for block in old.into_iter().flatten() {
            let slot = self.find(block.at);
            self.slots[slot] = Some(block);
        }
    }
}
