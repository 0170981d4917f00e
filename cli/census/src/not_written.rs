//! Blocks in use whose pages were never written: room that the program allocated and does not use.
//!
//! The kernel gives a page to a process when it is touched for the first time. A page of a block that is not there, and
//! not in swap, was never touched, or was returned to the kernel since: it reads as zeroes and takes no memory. What a
//! block has of such pages counts; whether bytes on other pages were written is not to be seen from them.

use std::{cmp::Reverse, collections::HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    Block, Moment, Sink, State, Walker,
    stats::Resident,
    types::{ClassId, ClassTally},
};

/// Rows that are told, and groups that are kept.
const ROWS: usize = 1000;
const MOST_GROUPS: usize = 1 << 16;

/// Blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotWrittenSum {
    /// Blocks that have such pages.
    pub blocks: u64,
    /// Of these, blocks that have no other.
    pub whole: u64,
    /// Usable bytes of the blocks.
    pub bytes: u64,
    /// Their bytes on such pages.
    pub not_written: u64,
}

/// Blocks of one class and size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotWrittenRow {
    /// The class, if they say it.
    pub class: Option<String>,
    /// Usable bytes of each.
    pub size: u64,
    /// Their sum.
    pub sum: NotWrittenSum,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotWritten {
    /// Usable bytes of all blocks in use that were looked at.
    pub in_use: u64,
    /// Blocks in memory that is shared or of files: its pages do not tell.
    pub left_out: u64,
    /// All of it.
    pub sum: NotWrittenSum,
    /// By class and size, those with most bytes that were not written first.
    pub rows: Vec<NotWrittenRow>,
    /// Why it cannot be told.
    pub error: Option<String>,
}

impl NotWrittenSum {
    fn add(&mut self, size: u64, not_written: u64) {
        self.blocks += 1;
        self.whole += u64::from(size == not_written);
        self.bytes = self.bytes.saturating_add(size);
        self.not_written = self.not_written.saturating_add(not_written);
    }
}

/// Looks at the pages of all blocks in use of which `counts` says so, by class and size.
pub fn look(
    moment: &Moment<'_>,
    walkers: &[&dyn Walker],
    counts: &dyn Fn(Option<&str>, u64) -> bool,
) -> NotWritten {
    let mut tally = Tally {
        moment,
        types: ClassTally::new(moment),
        resident: Resident::of(moment),
        groups: HashMap::new(),
        found: NotWritten::default(),
    };
    for walker in walkers {
        walker.walk(moment, &mut tally);
    }
    tally.finish(counts)
}

struct Tally<'a, 'm> {
    moment: &'a Moment<'m>,
    types: ClassTally<'a, 'm>,
    resident: Resident,
    groups: HashMap<(Option<ClassId>, u64), NotWrittenSum>,
    found: NotWritten,
}

impl Tally<'_, '_> {
    fn finish(self, counts: &dyn Fn(Option<&str>, u64) -> bool) -> NotWritten {
        let Self { types, groups, mut found, .. } = self;
        let names = types.into_names();
        let rows = groups.into_iter().map(|((class, size), sum)| {
            let class = class.and_then(|class| names.get(usize::try_from(class.0).ok()?).cloned());
            NotWrittenRow { class, size, sum }
        });
        found.rows = rows.filter(|row| counts(row.class.as_deref(), row.size)).collect();
        for NotWrittenRow { sum, .. } in &found.rows {
            let all = &mut found.sum;
            all.blocks += sum.blocks;
            all.whole += sum.whole;
            all.bytes = all.bytes.saturating_add(sum.bytes);
            all.not_written = all.not_written.saturating_add(sum.not_written);
        }
        found.rows.sort_by(|a, b| {
            let key = |row: &NotWrittenRow| (Reverse(row.sum.not_written), row.size);
            key(a).cmp(&key(b)).then_with(|| a.class.cmp(&b.class))
        });
        found.rows.truncate(ROWS);
        found
    }
}

impl Sink for Tally<'_, '_> {
    fn block(&mut self, block: Block) {
        if block.state != State::Used || block.size == 0 {
            return;
        }
        let range = block.at..block.at.saturating_add(block.size);
        let there = self.resident.overlap(&range);
        let there = there.resident.saturating_add(there.swapped);
        let size = block.size;
        // Nearly all blocks are there as a whole.
        let not_written = size.saturating_sub(there);
        if not_written > 0 && !self.moment.region(block.at).is_some_and(|r| r.is_private_memory()) {
            self.found.left_out += 1;
            return;
        }
        self.found.in_use = self.found.in_use.saturating_add(size);
        if not_written == 0 {
            return;
        }
        self.types.block(block);
        let key = (self.types.latest(), size);
        if self.groups.len() < MOST_GROUPS || self.groups.contains_key(&key) {
            self.groups.entry(key).or_default().add(size, not_written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Walk, synthetic::Synthetic};

    const HEAP: u64 = 0x80_0000;

    /// Blocks at these places.
    struct Blocks(Vec<(u64, u64)>);

    impl Walker for Blocks {
        fn name(&self) -> &'static str {
            "blocks"
        }

        fn walk(&self, _: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
            for &(at, size) in &self.0 {
                for state in [State::Used, State::Free] {
                    sink.block(Block { at: HEAP + at, size, state, arena: 0, class: 0 });
                }
            }
            Answer::Walked(Walk::default())
        }
    }

    #[test]
    fn what_lies_on_pages_that_are_not_there_was_not_written() {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x10_0000);
        [0, 0x5000].into_iter().for_each(|page| memory.write(HEAP + page, 1));
        let blocks = Blocks(vec![(0x100, 0x40), (0x800, 0x2000), (0x3000, 0x1000), (0x5010, 0x20)]);
        let moment = memory.moment();
        let found = look(&moment, &[&blocks], &|_, _| true);
        assert_eq!(found.in_use, 0x40 + 0x2000 + 0x1000 + 0x20);
        let sum = NotWrittenSum { blocks: 2, whole: 1, bytes: 0x3000, not_written: 0x2800 };
        assert_eq!((found.sum, found.left_out), (sum, 0));
        let rows: Vec<_> = found.rows.iter().map(|row| (row.size, row.sum.not_written)).collect();
        assert_eq!(rows, [(0x2000, 0x1800), (0x1000, 0x1000)]);
        let few = look(&moment, &[&blocks], &|_, size| size < 0x2000);
        assert_eq!((few.rows.len(), few.sum.not_written), (1, 0x1000));
    }
}
