//! Blocks by their usable size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::State;

/// Sizes below have a row of a table each.
const TABLE: u64 = 1 << 16;
const GRAIN: u64 = 8;
/// So many different sizes beyond are told apart; more are counted as one.
const MOST: usize = 1 << 20;

/// Blocks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRow {
    /// Usable bytes of each.
    pub size: u64,
    /// Blocks in use.
    pub used: u64,
    /// Free ones, in lists and caches.
    pub free: u64,
}

impl SizeRow {
    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.used)
    }
}

/// All sizes.
#[derive(Clone, Debug)]
pub struct Sizes {
    table: Vec<[u64; 2]>,
    beyond: BTreeMap<u64, [u64; 2]>,
}

impl Default for Sizes {
    fn default() -> Self {
        let rows = usize::try_from(TABLE / GRAIN).unwrap_or(0);
        Self { table: vec![[0; 2]; rows], beyond: BTreeMap::new() }
    }
}

impl Sizes {
    /// Counts a block.
    #[inline]
    pub fn add(&mut self, size: u64, state: State) {
        let row = match usize::try_from(size / GRAIN).ok().filter(|_| size.is_multiple_of(GRAIN)) {
            Some(index) if index < self.table.len() => &mut self.table[index],
            _ => {
                let size = if self.beyond.len() < MOST { size } else { u64::MAX };
                self.beyond.entry(size).or_default()
            }
        };
        row[usize::from(state != State::Used)] += 1;
    }

    /// How many different sizes there are.
    pub fn len(&self) -> usize {
        self.rows().count()
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.rows().next().is_none()
    }

    fn rows(&self) -> impl Iterator<Item = SizeRow> {
        let table = (0..).map(|index: u64| index * GRAIN).zip(&self.table);
        let beyond = self.beyond.iter().map(|(size, row)| (*size, row));
        let all = table.chain(beyond).filter(|(_, row)| **row != [0, 0]);
        all.map(|(size, &[used, free])| SizeRow { size, used, free })
    }

    /// So many sizes of most bytes in use.
    pub fn largest(&self, count: usize) -> Vec<SizeRow> {
        let mut rows: Vec<SizeRow> = self.rows().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes()), row.size));
        rows.truncate(count);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_most_bytes_in_use_are_told() {
        let mut sizes = Sizes::default();
        (0..3).for_each(|_| sizes.add(24, State::Used));
        sizes.add(24, State::Cached);
        sizes.add(1 << 20, State::Used);
        sizes.add(33, State::Free);
        let row = |size, used, free| SizeRow { size, used, free };
        assert_eq!(sizes.largest(2), [row(1 << 20, 1, 0), row(24, 3, 1)]);
        assert_eq!(sizes.len(), 3);
    }
}
