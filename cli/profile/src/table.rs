//! The live blocks by their address: a hash table with open addressing.
//!
//! Every event of the target ends in one look-up here, and at a million live blocks the table is
//! larger than the caches, so what counts are misses. The slots are small, a part of the hash and
//! the place of the block: at most every second is taken, a block is found in its home slot or
//! close behind, and its neighbours can be told from it, and moved, without a look at the blocks. A
//! removal closes the gap it makes; there are no tombstones, so the table does not age. The place of
//! the block that went last, still in the cache, is that of the next one to come.

use std::hash::{BuildHasher, RandomState};

use heapattach_process::addr::RemoteAddr;

use crate::block::{Block, narrow};

/// Addresses whose blocks are fetched from memory at once; more would outrun the first cache.
pub const TOGETHER: usize = 64;

/// The bits of a slot's number in an empty table.
const SMALLEST: u32 = 10;

/// A table of blocks, no two at the same address.
#[derive(Debug)]
pub struct Table {
    /// A power of two of them.
    slots: Vec<Slot>,
    /// What a hash is shifted by to give the number of its home slot.
    shift: u32,
    blocks: Vec<Block>,
    /// Unused places in `blocks`.
    vacant: Vec<u32>,
    limit: usize,
    seed: u64,
}

/// Where a block is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Its upper bits are the number of the home slot.
    hash: u32,
    /// Its place in `blocks`, or [`NOWHERE`].
    place: u32,
}

const NOWHERE: u32 = u32::MAX;

const EMPTY: Slot = Slot { hash: 0, place: NOWHERE };

/// The table holds as many blocks as it may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Table {
    /// An empty table that never holds more than `limit` blocks.
    pub fn new(limit: usize) -> Self {
        // The target chooses the addresses: without a seed it could choose a thousand with one
        // home, and have us walk past all of them at each event.
        let seed = RandomState::new().hash_one(0u64);
        let (blocks, vacant) = Default::default();
        // Beyond a quarter of all hashes the home slots would no longer tell them apart.
        let limit = limit.min(1 << 30);
        Self {
            slots: vec![EMPTY; 1 << SMALLEST],
            shift: 32 - SMALLEST,
            blocks,
            vacant,
            limit,
            seed,
        }
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len() - self.vacant.len()
    }

    /// All of them, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let taken = self.slots.iter().filter(|slot| slot.place != NOWHERE);
        taken.map(|slot| &self.blocks[slot.place as usize])
    }

    /// The block at this address.
    pub fn get(&self, at: RemoteAddr) -> Option<&Block> {
        let at = narrow(at);
        let slot = self.slots[self.find(self.hash(at), at)];
        (slot.place != NOWHERE).then(|| &self.blocks[slot.place as usize])
    }

    /// Puts a block at its address and returns the one that was there.
    ///
    /// # Errors
    ///
    /// None was there, and the table is full: it is as before.
    pub fn insert(&mut self, block: Block) -> Result<Option<Block>, Full> {
        let hash = self.hash(block.at());
        let mut slot = self.find(hash, block.at());
        let place = self.slots[slot].place;
        if place != NOWHERE {
            return Ok(Some(std::mem::replace(&mut self.blocks[place as usize], block)));
        }
        let len = self.len();
        if len >= self.limit {
            return Err(Full);
        }
        if (len + 1) * 2 > self.slots.len() {
            self.grow();
            slot = self.find(hash, block.at());
        }
        let place = self.settle(block).ok_or(Full)?;
        self.slots[slot] = Slot { hash, place };
        Ok(None)
    }

    /// Takes out the block at this address if `wanted` says so.
    pub fn remove_if(
        &mut self,
        at: RemoteAddr,
        wanted: impl FnOnce(&Block) -> bool,
    ) -> Option<Block> {
        let at = narrow(at);
        let slot = self.find(self.hash(at), at);
        let place = self.slots[slot].place;
        // `NOWHERE` is behind the end.
        let block = self.blocks.get(place as usize).copied().filter(wanted)?;
        self.close(slot);
        self.vacant.push(place);
        Some(block)
    }

    /// Loads what look-ups of these addresses will read. Look-ups that follow one another wait for
    /// memory one after the other; these loads depend on nothing and wait together.
    pub fn warm(&self, addresses: impl Iterator<Item = RemoteAddr>) {
        let mut homes = [0; TOGETHER];
        let (mut count, mut touched) = (0, 0);
        for (home, at) in homes.iter_mut().zip(addresses) {
            *home = (self.hash(narrow(at)) >> self.shift) as usize;
            touched ^= self.slots[*home].place;
            count += 1;
        }
        std::hint::black_box(touched);
        // Most blocks are in their home slot. Which one is it would take a branch to know, and a
        // wrong guess costs more than the line that is loaded for nothing.
        let touched = homes[..count].iter().fold(0, |sum, &home| {
            let place = self.slots[home].place as usize;
            sum ^ self.blocks.get(place).map_or(0, Block::stamp)
        });
        std::hint::black_box(touched);
    }

    /// The slot of the block at `at`, or the empty one where it belongs. There is always an empty
    /// one.
    fn find(&self, hash: u32, at: RemoteAddr) -> usize {
        let mask = self.slots.len() - 1;
        let mut number = (hash >> self.shift) as usize;
        loop {
            let slot = self.slots[number & mask];
            if slot.place == NOWHERE
                || (slot.hash == hash && self.blocks[slot.place as usize].at() == at)
            {
                return number & mask;
            }
            number += 1;
        }
    }

    /// Addresses are arithmetic progressions; of the cheap hashes only a folded product spreads
    /// them well enough for linear probing.
    fn hash(&self, at: RemoteAddr) -> u32 {
        let product = u128::from(at.get() ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation, reason = "a hash is bits without a meaning")]
        let folded = (product >> 64) as u32 ^ (product >> 32) as u32;
        folded
    }

    /// Finds a place for a block.
    fn settle(&mut self, block: Block) -> Option<u32> {
        if let Some(place) = self.vacant.pop() {
            self.blocks[place as usize] = block;
            return Some(place);
        }
        let place = u32::try_from(self.blocks.len()).ok()?;
        self.blocks.push(block);
        Some(place)
    }

    /// Empties a slot and moves up those behind it that were pushed past it.
    fn close(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut number = (hole + 1) & mask;
        while self.slots[number].place != NOWHERE {
            let slot = self.slots[number];
            let from_home = number.wrapping_sub((slot.hash >> self.shift) as usize) & mask;
            if from_home >= number.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = number;
            }
            number = (number + 1) & mask;
        }
        self.slots[hole] = EMPTY;
    }

    fn grow(&mut self) {
        let bigger = vec![EMPTY; self.slots.len() * 2];
        self.shift -= 1;
        let mask = bigger.len() - 1;
        for slot in std::mem::replace(&mut self.slots, bigger) {
            if slot.place == NOWHERE {
                continue;
            }
            let mut number = (slot.hash >> self.shift) as usize;
            while self.slots[number].place != NOWHERE {
                number = (number + 1) & mask;
            }
            self.slots[number] = slot;
        }
    }
}
