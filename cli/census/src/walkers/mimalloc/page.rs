//! A page of mimalloc's: blocks of one size, and the lists of those that are free.

use std::ops::Range;

use crate::Moment;

use super::layout::{Fields, Start};

/// Memory is divided into slices of so many bytes.
pub const SLICE: u64 = 1 << 16;
/// Blocks of more bytes than this have a page alone, in releases that tell sizes in half a word.
const ALONE: u64 = 1 << 31;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its books.
    pub at: u64,
    /// The slices that it takes.
    pub span: Range<u64>,
    /// Its first block.
    pub start: u64,
    /// The bytes of each.
    pub block: u64,
    /// Blocks that there are.
    pub capacity: u64,
    /// Blocks that there can be.
    pub reserved: u64,
    /// Blocks that are in use, as it counts them itself; those that others freed are among them.
    pub used: u64,
    /// The first blocks of three lists: free, freed by its thread, freed by others.
    lists: [u64; 3],
    /// The heap that has it, or 0.
    pub heap: u64,
    /// The thread that has it, or 0.
    pub owner: u64,
}

/// Which blocks of a page are free.
#[derive(Debug)]
pub struct Free {
    /// One for each block.
    pub is_free: Vec<bool>,
    /// Free ones that are not counted as used.
    pub uncounted: u64,
    /// The first word of a list that leads nowhere.
    pub broken: Option<u64>,
}

impl Page {
    /// From its books; `None` if these cannot be.
    pub fn read(
        moment: &Moment<'_>,
        at: u64,
        fields: &Fields,
        span: Range<u64>,
        owner: u64,
    ) -> Option<Self> {
        let number = |offset: u64, bytes: u64| {
            let word = moment.word(at.checked_add(offset)?)?;
            Some(if bytes == 8 { word } else { word & ((1 << (8 * bytes)) - 1) })
        };
        let mut block = number(fields.block.0, fields.block.1)?;
        let start = match fields.start {
            Start::At(offset) => number(offset, 8)?,
            Start::Words(offset) => at.checked_add(number(offset, 4)? * 8)?,
            Start::Fixed if (8..=1024).contains(&block) => span.start + 384,
            Start::Multiple if (8..=64).contains(&block) => span.start + 3 * block,
            Start::Multiple if (65..=512).contains(&block) => span.start + block,
            Start::Fixed | Start::Multiple => span.start,
        };
        let room = span.end.checked_sub(start).filter(|_| start >= span.start)?;
        if block >= ALONE && fields.block.1 == 4 {
            block = room;
        }
        let (capacity, reserved) = (number(fields.capacity, 2)?, number(fields.capacity + 2, 2)?);
        let page = Self {
            at,
            start,
            block,
            capacity,
            reserved,
            used: number(fields.used.0, fields.used.1)?,
            lists: [
                number(fields.free, 8)?,
                number(fields.local_free, 8)?,
                number(fields.thread_free, 8)? & !3,
            ],
            heap: number(fields.heap, 8)?,
            owner,
            span,
        };
        let takes = block.checked_mul(reserved)?;
        let is_derived = matches!(fields.start, Start::Fixed | Start::Multiple);
        let fits = takes <= room && (!is_derived || reserved == 1 || room - takes < block);
        let is_sound = block >= 8 && capacity <= reserved && page.used <= capacity && fits;
        is_sound.then_some(page)
    }

    /// Follows the lists. `delayed`: blocks of all pages that wait to be freed, ascending.
    pub fn free(&self, moment: &Moment<'_>, delayed: &[u64]) -> Free {
        let count = usize::try_from(self.capacity).unwrap_or(0);
        let mut free = Free { is_free: vec![false; count], uncounted: 0, broken: None };
        for (list, first) in self.lists.iter().enumerate() {
            let mut at = *first;
            while at != 0 {
                let slot = self.index(at).and_then(|index| free.is_free.get_mut(index));
                match slot {
                    Some(is_free) if !*is_free => *is_free = true,
                    _ => {
                        free.broken = Some(at);
                        break;
                    }
                }
                free.uncounted += u64::from(list < 2);
                let Some(next) = moment.word(at) else {
                    free.broken = Some(at);
                    break;
                };
                at = next;
            }
        }
        let from = delayed.partition_point(|at| *at < self.start);
        for at in delayed[from..].iter().take_while(|at| **at < self.span.end) {
            match self.index(*at).and_then(|index| free.is_free.get_mut(index)) {
                Some(is_free) => *is_free = true,
                None => free.broken = Some(*at),
            }
        }
        free
    }

    /// Which block begins there.
    pub fn index(&self, at: u64) -> Option<usize> {
        let offset = at.checked_sub(self.start)?;
        let is_start = offset.is_multiple_of(self.block);
        is_start.then(|| usize::try_from(offset / self.block).ok())?
    }
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::{super::layout::MAPS, *};

    fn heap() -> (Synthetic, u64) {
        let mut memory = Synthetic::default();
        memory.map(0x10_0000..0x20_0000);
        // Ten of 48 bytes, of which there can be 100; the second and the third are free, the fifth
        // was freed by another thread.
        let at = 0x10_0000;
        memory.write(at + 8, 0x18_0030);
        memory.write(at + 16, 8 | 10 << 16 | 100 << 32);
        memory.write(at + 32, 0x18_00c1);
        memory.write(at + 40, 48);
        memory.write(at + 48, 0x18_0000);
        memory.write(0x18_0030, 0x18_0060);
        (memory, at)
    }

    #[test]
    fn free_blocks_are_those_of_the_lists() {
        let (memory, at) = heap();
        let moment = memory.moment();
        let page = Page::read(&moment, at, &MAPS[0].page, 0x18_0000..0x19_0000, 7).unwrap();
        let free = page.free(&moment, &[0x18_0180]);
        let which: Vec<_> = (0..10).filter(|index| free.is_free[*index]).collect();
        assert_eq!((which, free.uncounted, free.broken), (vec![1, 2, 4, 8], 2, None));
    }

    #[test]
    fn a_list_that_runs_in_a_circle_is_broken() {
        let (mut memory, at) = heap();
        memory.write(0x18_0060, 0x18_0030);
        let moment = memory.moment();
        let page = Page::read(&moment, at, &MAPS[0].page, 0x18_0000..0x19_0000, 7).unwrap();
        assert_eq!(page.free(&moment, &[]).broken, Some(0x18_0030));
    }

    #[test]
    fn books_that_cannot_be_are_none() {
        for (offset, word) in [(16, 11 | 10 << 16 | 100 << 32), (40, 4), (48, 0x30_0000)] {
            let (mut memory, at) = heap();
            memory.write(at + offset, word);
            let moment = memory.moment();
            let page = Page::read(&moment, at, &MAPS[0].page, 0x18_0000..0x19_0000, 7);
            assert_eq!(page, None, "{word:#x} at {offset}");
        }
    }
}
