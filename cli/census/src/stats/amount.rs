//! Bytes by where they are, and what they are for.

use serde::{Deserialize, Serialize};

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// In memory.
    pub resident: u64,
    /// In swap alone.
    pub swapped: u64,
}

impl Amount {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.resident = self.resident.saturating_add(other.resident);
        self.swapped = self.swapped.saturating_add(other.swapped);
    }

    /// What is left without another, at least nothing.
    pub fn without(self, other: Self) -> Self {
        Self {
            resident: self.resident.saturating_sub(other.resident),
            swapped: self.swapped.saturating_sub(other.swapped),
        }
    }
}

/// What the memory of an arena is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds {
    /// Blocks in use.
    pub live: Amount,
    /// Free blocks in lists of an arena.
    pub free: Amount,
    /// Free blocks in caches of threads.
    pub cached: Amount,
    /// What was not cut into blocks yet.
    pub top: Amount,
    /// The allocator's own: heads of blocks, padding, tables.
    pub books: Amount,
}

impl Kinds {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.live.add(other.live);
        self.free.add(other.free);
        self.cached.add(other.cached);
        self.top.add(other.top);
        self.books.add(other.books);
    }

    /// All of it.
    pub fn all(&self) -> Amount {
        let mut sum = Amount::default();
        [self.live, self.free, self.cached, self.top, self.books]
            .into_iter()
            .for_each(|one| sum.add(one));
        sum
    }

    /// What the allocator keeps and the program does not use.
    pub fn kept(&self) -> Amount {
        let mut sum = self.free;
        sum.add(self.cached);
        sum.add(self.top);
        sum
    }
}
