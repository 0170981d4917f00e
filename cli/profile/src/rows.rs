//! All rows, by the number of their stack and by thread.

use heapattach_process::event::StackId;

use crate::{block::RowId, row::Row};

/// Stacks with a higher number count as the unknown one; more than the session's table can hold.
const STACKS: usize = 1 << 22;

/// There is no other row of that stack.
const NONE: u32 = u32::MAX;

/// The rows of a session; their number is bounded, no matter what the target writes.
#[derive(Clone, Debug)]
pub struct Rows {
    /// By the number of the stack: the row that was asked for last.
    first: Vec<u32>,
    /// By row that was asked for: another one of the same stack.
    next: Vec<u32>,
    /// The first is the unknown one.
    rows: Vec<Row>,
    limit: usize,
}

impl Rows {
    /// No row but the unknown one, and never more than `limit` others.
    pub fn new(limit: usize) -> Self {
        Self { first: Vec::new(), next: vec![NONE], rows: vec![Row::default()], limit }
    }

    /// The row of a stack in a thread; beyond the limit, the unknown one.
    #[inline]
    pub fn of(&mut self, stack: StackId, thread: u16) -> RowId {
        let number = usize::try_from(stack.0).ok().filter(|&n| n < STACKS);
        let Some(number) = number else { return RowId(0) };
        match self.first.get(number) {
            Some(&first) if first != NONE && self.rows[first as usize].thread == thread => {
                RowId(first)
            }
            _ => self.seek(number, stack, thread),
        }
    }

    /// The same where it is not the last one that was asked for.
    fn seek(&mut self, number: usize, stack: StackId, thread: u16) -> RowId {
        if number == 0 && thread == 0 {
            return RowId(0);
        }
        if self.first.len() <= number {
            self.first.resize(number + 1, NONE);
        }
        let (mut before, mut at) = (NONE, self.first[number]);
        while at != NONE && self.rows[at as usize].thread != thread {
            (before, at) = (at, self.next[at as usize]);
        }
        if at == NONE {
            at = match u32::try_from(self.rows.len()) {
                Ok(new) if self.rows.len() <= self.limit => new,
                _ => return RowId(0),
            };
            self.rows.push(Row::new(stack, thread));
            // Rows that are known from elsewhere have none.
            self.next.resize(at as usize, NONE);
            self.next.push(self.first[number]);
        } else if before != NONE {
            self.next[before as usize] = self.next[at as usize];
            self.next[at as usize] = self.first[number];
        }
        self.first[number] = at;
        RowId(at)
    }

    /// A row by its number.
    pub fn get_mut(&mut self, row: RowId) -> &mut Row {
        let last = self.rows.len() - 1;
        &mut self.rows[(row.0 as usize).min(last)]
    }

    /// All of them, in the order of their numbers.
    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    /// Adds rows that are known from elsewhere, by their threads.
    pub fn extend(&mut self, threads: impl ExactSizeIterator<Item = u16>) {
        self.rows.reserve_exact(threads.len());
        self.rows.extend(threads.map(|thread| Row { thread, ..Row::default() }));
    }

    /// Loads what changes of these rows will touch. Changes that follow one another wait for memory
    /// one after the other; these loads depend on nothing and wait together.
    pub fn warm(&self, rows: impl Iterator<Item = RowId>) {
        let loaded = rows.filter_map(|row| self.rows.get(row.0 as usize));
        std::hint::black_box(loaded.fold(0, |sum, row| sum ^ row.touch()));
    }

    /// All of them, and nothing else.
    pub fn into_all(self) -> Vec<Row> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(rows: &Rows) -> Vec<(u32, u16, u64)> {
        rows.all().iter().map(|row| (row.stack.0, row.thread, row.pages.live)).collect()
    }

    fn touch(rows: &mut Rows, stack: u32, thread: u16) {
        let row = rows.of(StackId(stack), thread);
        rows.get_mut(row).pages.add(1, true);
    }

    #[test]
    fn a_stack_keeps_its_row_in_each_thread() {
        let mut rows = Rows::new(10);
        for (stack, thread) in [(5, 1), (0, 0), (5, 2), (9, 1), (5, 1), (5, 3), (5, 2), (0, 4)] {
            touch(&mut rows, stack, thread);
        }
        let expected = [(0, 0, 1), (5, 1, 2), (5, 2, 2), (9, 1, 1), (5, 3, 1), (0, 4, 1)];
        assert_eq!(live(&rows), expected);
    }

    #[test]
    fn what_is_beyond_the_limit_counts_as_unknown() {
        let mut rows = Rows::new(3);
        for stack in [1, 2, 3, 4, u32::MAX, 1] {
            touch(&mut rows, stack, 0);
        }
        assert_eq!(live(&rows), [(0, 0, 2), (1, 0, 2), (2, 0, 1), (3, 0, 1)]);
    }
}
