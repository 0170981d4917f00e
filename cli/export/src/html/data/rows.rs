//! The rows of a page: millions of them lie in one piece, and are told one by one.

use serde::{Serialize, Serializer};

use heapattach_ledger::Metric;

/// Numbers of what is before the amounts of a row.
const KEY: usize = 3;
/// Numbers of a side: its sums, and pages mapped and still mapped.
pub const AMOUNTS: usize = Metric::ALL.len() + 2;

/// Rows, each of as many numbers.
#[derive(Debug)]
pub struct Rows {
    numbers: Vec<u64>,
    each: usize,
}

impl Rows {
    /// None yet, with room for so many of so many sides.
    pub fn new(sides: usize, count: usize) -> Self {
        let each = KEY + sides * AMOUNTS;
        Self { numbers: Vec::with_capacity(each * count), each }
    }

    /// Begins a row; the amounts of each side must follow.
    pub fn begin(&mut self, key: [u32; KEY]) {
        self.numbers.extend(key.map(u64::from));
    }

    /// Tells the amounts of the next side.
    pub fn extend(&mut self, amounts: &[u64; AMOUNTS]) {
        self.numbers.extend_from_slice(amounts);
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        self.numbers.chunks_exact(self.each)
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_one_by_one() {
        let mut rows = Rows::new(1, 2);
        for number in [1, 2] {
            rows.begin([number; KEY]);
            rows.extend(&[u64::from(number) * 10; AMOUNTS]);
        }
        let told = serde_json::to_string(&rows).unwrap();
        assert_eq!(told, "[[1,1,1,10,10,10,10,10,10,10],[2,2,2,20,20,20,20,20,20,20]]");
    }
}
