//! The rows of a page: millions of them lie in one piece, and are told one by one.

use serde::{Serialize, Serializer};

use heapattach_ledger::Metric;

/// Numbers of what is before the amounts of a row.
const KEY: usize = 3;
/// Numbers of a side: its sums, and pages mapped and still mapped.
pub const AMOUNTS: usize = Metric::ALL.len() + 2;

/// Numbers of sums; what is behind them in a side are bytes of pages.
const SUMS: usize = Metric::ALL.len();

/// Rows, each of as many numbers.
#[derive(Debug)]
pub struct Rows {
    /// In place of bytes of pages, where they are in `pages`: most rows have none, and half the room is enough.
    numbers: Vec<u32>,
    pages: Vec<u64>,
    each: usize,
}

impl Rows {
    /// None yet, with room for so many of so many sides.
    pub fn new(sides: usize, count: usize) -> Self {
        let each = KEY + sides * AMOUNTS;
        Self { numbers: Vec::with_capacity(each * count), pages: vec![0], each }
    }

    /// Begins a row; the amounts of each side must follow.
    pub fn begin(&mut self, key: [u32; KEY]) {
        self.numbers.extend(key);
    }

    /// Tells the amounts of the next side: the numbers of its sums, and its pages.
    pub fn extend(&mut self, sums: [u32; SUMS], pages: [u64; 2]) {
        self.numbers.extend(sums);
        for bytes in pages {
            let place = if bytes == 0 { 0 } else { self.pages.len() };
            self.pages.extend((bytes > 0).then_some(bytes));
            self.numbers.push(u32::try_from(place).unwrap_or(0));
        }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.numbers.chunks_exact(self.each).map(|numbers| Row { numbers, pages: &self.pages })
    }
}

/// One of them.
pub struct Row<'a> {
    numbers: &'a [u32],
    pages: &'a [u64],
}

impl Row<'_> {
    /// All its numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.numbers.iter().enumerate().map(|(at, &number)| {
            let is_pages = at.checked_sub(KEY).is_some_and(|at| at % AMOUNTS >= SUMS);
            if is_pages { self.pages[number as usize] } else { number.into() }
        })
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.numbers())
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
            rows.extend([number * 10; SUMS], [1 << 40, u64::from(number) - 1]);
        }
        let told = serde_json::to_string(&rows).unwrap();
        assert_eq!(
            told,
            "[[1,1,1,10,10,10,10,10,1099511627776,0],[2,2,2,20,20,20,20,20,1099511627776,1]]"
        );
    }
}
