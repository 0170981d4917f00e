//! What the hooks counted, exactly, and what they lost, out of the rows of the target's threads.
//!
//! The target can write the rows at any time, so every word may be anything: sums saturate, and
//! nothing grows with what is found.

use heapattach_abi::{
    flow,
    kind::MAX_HOOKS,
    region,
    row::{self, Count},
};
use nix::errno::Errno;

use heapattach_process::{memory::Memory, shared::Shared};

const ROW_WORDS: usize = row::ROW_BYTES / 8;

/// All rows together.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Per hook.
    pub hooks: [Count; MAX_HOOKS],
    /// What is missing in the records.
    pub lost: Lost,
    /// What `verify` found.
    pub verified: Verified,
    /// Calls of the kernel by which the target's hooks copied memory for frames of scripts.
    pub copying_calls: u64,
    /// Records that waited for room in a ring, and found it.
    pub waited: u64,
    /// Threads seen.
    pub threads: usize,
    /// Calls by threads that share a row, since there are more threads than rows.
    pub crowded: u64,
}

/// Records that the target could not write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Of blocks and mappings allocated: the ring was full.
    pub blocks: u64,
    /// Of blocks and mappings freed: some that are shown as live are not.
    pub frees: u64,
    /// Samples that the target had no room to remember.
    pub samples: u64,
    /// Call stacks that found no room: their blocks count as of an unknown place.
    pub stacks: u64,
}

/// Stacks that were walked twice, to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many.
    pub stacks: u64,
    /// How many of them were not the same both times.
    pub differed: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            hooks: [Count::default(); MAX_HOOKS],
            lost: Lost::default(),
            verified: Verified::default(),
            copying_calls: 0,
            waited: 0,
            threads: 0,
            crowded: 0,
        }
    }
}

impl Counts {
    /// Adds up all rows in use.
    ///
    /// # Errors
    /// When the target is gone and the rows with it.
    pub fn read(shared: &Shared, memory: &Memory) -> Result<Self, Errno> {
        let mut counts = Self::default();
        let mut words = [0; ROW_WORDS];
        counts.threads = rows(shared, memory)?;
        for number in 0..=counts.threads {
            shared.words(memory, region::ROWS_AT + number * row::ROW_BYTES, &mut words)?;
            counts.add(&words);
            if number == 0 {
                counts.crowded = counts.totals().0;
            }
        }
        counts.lost.stacks = shared.word(memory, region::STACKS_LOST)?;
        counts.verified.stacks = shared.word(memory, region::VERIFIED)?;
        counts.verified.differed = shared.word(memory, region::DIFFERED)?;
        counts.copying_calls = shared.word(memory, region::COPYING_CALLS)?;
        Ok(counts)
    }

    fn add(&mut self, words: &[u64; ROW_WORDS]) {
        let at = |offset: usize| words[offset / 8];
        for (hook, sum) in self.hooks.iter_mut().enumerate() {
            let offset = row::COUNTS + hook * row::COUNT_BYTES;
            sum.calls = sum.calls.saturating_add(at(offset));
            sum.bytes = sum.bytes.saturating_add(at(offset + 8));
        }
        self.waited = self.waited.saturating_add(at(row::WAITED));
        let lost = &mut self.lost;
        lost.blocks = lost.blocks.saturating_add(at(row::DROPPED_BLOCKS));
        lost.frees = lost.frees.saturating_add(at(row::DROPPED_FREES));
        lost.samples = lost.samples.saturating_add(at(row::DROPPED_SAMPLES));
    }

    /// Calls and bytes of all hooks.
    pub fn totals(&self) -> (u64, u64) {
        self.hooks.iter().fold((0, 0), |(calls, bytes): (u64, u64), count| {
            (calls.saturating_add(count.calls), bytes.saturating_add(count.bytes))
        })
    }
}

/// Blocks allocated and freed since the attach, by class of size; all 0 where that is not counted.
///
/// # Errors
/// When the target is gone and the rows with it.
pub fn flows(shared: &Shared, memory: &Memory) -> Result<Vec<[u64; 2]>, Errno> {
    let mut sums = vec![[0_u64; 2]; flow::CLASSES];
    let mut words = [0; 2 * flow::CLASSES];
    for number in 0..=rows(shared, memory)? {
        shared.words(memory, region::FLOWS_AT + number * flow::FLOW_BYTES, &mut words)?;
        for (sum, words) in sums.iter_mut().zip(words.as_chunks::<2>().0) {
            sum.iter_mut().zip(words).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        }
    }
    Ok(sums)
}

/// The words that tell which sizes requests led to, by class of request ([`flow::sizes`]).
///
/// # Errors
/// When the target is gone and the rows with it.
pub fn sizes(shared: &Shared, memory: &Memory) -> Result<Vec<u64>, Errno> {
    let mut words = [0; flow::CLASSES];
    shared.words(memory, region::SIZES_AT, &mut words)?;
    Ok(words.to_vec())
}

/// The number of rows that threads own; row 0 is shared by the others and not among them.
pub fn rows(shared: &Shared, memory: &Memory) -> Result<usize, Errno> {
    let taken = shared.word(memory, region::ROWS_TAKEN)?;
    Ok(usize::try_from(taken).unwrap_or(usize::MAX).min(row::ROWS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_and_saturate() {
        let mut counts = Counts::default();
        let mut words = [0; ROW_WORDS];
        words[row::COUNTS / 8] = 3;
        words[row::COUNTS / 8 + 1] = 48;
        words[row::COUNTS / 8 + 2 * (MAX_HOOKS - 1)] = u64::MAX;
        words[row::DROPPED_FREES / 8] = 2;
        counts.add(&words);
        counts.add(&words);
        assert_eq!(counts.hooks[0], Count { calls: 6, bytes: 96 });
        assert_eq!(counts.hooks[MAX_HOOKS - 1].calls, u64::MAX);
        assert_eq!(counts.lost, Lost { frees: 4, ..Lost::default() });
        assert_eq!(counts.totals(), (u64::MAX, 96));
    }
}
