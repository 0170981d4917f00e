//! Rows and their stacks as bytes: whose number is whose.

use std::{collections::HashMap, ops::Range, sync::Arc};

use heapattach_ledger::EndReason;
use heapattach_process::stack::{self, StackEnd};

use crate::format::hash::Quick;
use crate::format::{
    stack_source::{Numbers, StackSource},
    varint::{In, Out},
};
use heapattach_profile::Row;

/// Rows of one block.
pub const ROWS: usize = 4096;
/// Frames of a stack at most.
const FRAMES: usize = 256;
/// No honest session has more rows or stacks, nor more frames in all of them.
const ROWS_LIMIT: usize = 1 << 22;
const FRAMES_LIMIT: usize = 1 << 25;

/// A call stack that was read: a part of [`Table::frames`], the innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    first: u32,
    depth: u16,
    /// Why there is no more, as a number of [`ENDS`].
    pub end: u8,
}

/// Why stacks end.
pub const ENDS: [EndReason; 8] = [
    EndReason::NoRoom,
    EndReason::Outermost,
    EndReason::Depth,
    EndReason::OffStack,
    EndReason::NoTable,
    EndReason::NoRule,
    EndReason::Implausible,
    EndReason::JustLoaded,
];

/// Why a stack ends, as a number of [`ENDS`]; of one that is not known there was no room for it.
pub fn end_of(stack: Option<&stack::Stack>) -> u8 {
    match stack.map_or(StackEnd::Lost, |stack| stack.end) {
        StackEnd::Lost => 0,
        StackEnd::Outermost => 1,
        StackEnd::Depth => 2,
        StackEnd::Unbounded => 3,
        StackEnd::NoTable => 4,
        StackEnd::NoRule => 5,
        StackEnd::Implausible => 6,
        StackEnd::Late => 7,
    }
}

/// Rows on their way out.
#[derive(Debug, Default)]
pub struct Encoder {
    out: Out,
    last: Vec<u64>,
    rows: usize,
    stacks: u64,
}

/// Rows that were read.
#[derive(Debug, Default)]
pub struct Table {
    /// Number of the stack, and of the thread.
    pub rows: Vec<(u32, u16)>,
    /// The stacks.
    pub stacks: Vec<Stack>,
    /// The calls of all stacks, each by the number of its address.
    pub frames: Arc<Vec<u32>>,
    /// The addresses that calls return to, each once.
    pub addresses: Vec<u64>,
    numbers: HashMap<u64, u32, Quick>,
}

impl Encoder {
    /// A row of a stack that is known by number already.
    pub fn known(&mut self, thread: u16, stack: u64) {
        self.rows += 1;
        self.out.number(thread.into());
        self.out.number(stack);
    }

    /// A row of another stack; answers its number.
    pub fn new_stack(&mut self, thread: u16, frames: &[u64], end: u8) -> u64 {
        let number = self.stacks;
        self.known(thread, number);
        self.stacks += 1;
        // What stacks have in common is at their outer ends.
        let both = frames.iter().rev().zip(self.last.iter().rev());
        let common = both.take_while(|(a, b)| a == b).count();
        let own = &frames[..frames.len() - common];
        self.out.number(end.into());
        self.out.number(common as u64);
        self.out.number(own.len() as u64);
        let mut before = self.last.first().copied().unwrap_or(0);
        for &frame in own {
            self.out.distance(before, frame);
            before = frame;
        }
        self.last = frames.to_vec();
        number
    }

    /// Rows since the last block.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// The content of a block, and from here on that of another.
    pub fn finish(&mut self) -> Vec<u8> {
        self.rows = 0;
        self.last.clear();
        std::mem::take(&mut self.out).0
    }
}

impl Stack {
    /// Where its calls are among those of all stacks.
    pub fn range(&self) -> Range<usize> {
        let first = self.first as usize;
        first..first + usize::from(self.depth)
    }
}

impl Table {
    /// Of rows in memory: as if they had been written and read.
    pub fn of(rows: &[Row], stacks: &impl StackSource) -> Self {
        let (mut table, mut numbers) = (Self::default(), Numbers::default());
        table.rows.reserve_exact(rows.len());
        for row in rows {
            let number = numbers.get(row.stack).unwrap_or_else(|| {
                let number = table.stacks.len() as u64;
                numbers.set(row.stack, number);
                table.take_stack(stacks.stack(row.stack));
                number
            });
            table.rows.push((u32::try_from(number).unwrap_or(u32::MAX), row.thread));
        }
        table
    }

    /// Adds a stack that a session has in memory. Of one that is too large, or too much with the others,
    /// is only known that there is one.
    fn take_stack(&mut self, stack: Option<&stack::Stack>) {
        let frames = stack.map_or(&[][..], |stack| &stack.frames);
        if !self.has_room(frames.len()) {
            return self.take_stack(None);
        }
        let last = self.stacks.last().map_or(0..0, Stack::range);
        // What stacks have in common is at their outer ends.
        let outer = self.frames[last.clone()].iter().rev();
        let outer = outer.map(|&number| self.addresses[number as usize]);
        let both = frames.iter().rev().map(|at| at.get()).zip(outer);
        let common = both.take_while(|(a, b)| a == b).count();
        let own = frames[..frames.len() - common].iter().map(|at| Some(at.get()));
        // There is room.
        let _ = self.put_stack(own, last.end - common..last.end, end_of(stack));
    }

    /// Adds the rows of a block. `None` if they are nonsense.
    pub fn add(&mut self, content: &[u8]) -> Option<()> {
        let mut all = In::new(content);
        let mut last = 0..0;
        while !all.is_empty() {
            let (thread, stack) = (all.small()?.try_into().ok()?, all.small()?);
            let index = stack as usize;
            if index == self.stacks.len() {
                last = self.add_stack(&mut all, last)?;
            }
            if index >= self.stacks.len() || self.rows.len() >= ROWS_LIMIT {
                return None;
            }
            self.rows.push((stack, thread));
        }
        Some(())
    }

    /// Adds a stack that is told by what it has in common with the one before; where its calls are.
    fn add_stack(&mut self, all: &mut In<'_>, last: Range<usize>) -> Option<Range<usize>> {
        let end = all.byte().filter(|&end| usize::from(end) < ENDS.len())?;
        let (common, own) = (all.small()? as usize, all.count()?);
        let (depth, shared) = (own.checked_add(common)?, last.len().checked_sub(common)?);
        if !self.has_room(depth) {
            return None;
        }
        let before = self.frames[last.clone()].first();
        let mut address = before.map_or(0, |&number| self.addresses[number as usize]);
        let own = (0..own).map(|_| {
            address = all.distance(address)?;
            Some(address)
        });
        self.put_stack(own, last.start + shared..last.end, end)
    }

    /// Whether there is room for a stack of so many calls.
    fn has_room(&self, depth: usize) -> bool {
        depth <= FRAMES && self.frames.len() + depth <= FRAMES_LIMIT
    }

    /// Adds a stack of these calls, as long as there are any, and of those behind them that are known at
    /// `outer`; where its calls are.
    fn put_stack(
        &mut self,
        own: impl Iterator<Item = Option<u64>>,
        outer: Range<usize>,
        end: u8,
    ) -> Option<Range<usize>> {
        let Self { stacks, frames, addresses, numbers, .. } = self;
        let frames = Arc::make_mut(frames);
        let first = frames.len();
        for address in own {
            let address = address?;
            let number = *numbers.entry(address).or_insert_with(|| {
                addresses.push(address);
                // There are no more than frames.
                u32::try_from(addresses.len() - 1).unwrap_or_default()
            });
            frames.push(number);
        }
        frames.extend_from_within(outer);
        let range = first..frames.len();
        let (first, depth) = (u32::try_from(first).ok()?, u16::try_from(range.len()).ok()?);
        stacks.push(Stack { first, depth, end });
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stacks() -> impl Strategy<Value = Vec<Vec<u64>>> {
        let address = prop_oneof![3 => 0x1000..0x1010_u64, 1 => any::<u64>()];
        prop::collection::vec(prop::collection::vec(address, 0..12), 0..30)
    }

    fn encoded(stacks: &[Vec<u64>]) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::default();
        let half = stacks.len() / 2;
        let block = |part: &[Vec<u64>], encoder: &mut Encoder| {
            for stack in part {
                let number = encoder.new_stack(3, stack, 1);
                encoder.known(4, number);
            }
            encoder.finish()
        };
        vec![block(&stacks[..half], &mut encoder), block(&stacks[half..], &mut encoder)]
    }

    proptest! {
        #[test]
        fn stacks_are_told_as_they_were(stacks in stacks()) {
            let mut table = Table::default();
            for block in encoded(&stacks) {
                prop_assert!(table.add(&block).is_some());
            }
            let rows = (0..).take(stacks.len()).flat_map(|stack| [(stack, 3), (stack, 4)]);
            prop_assert_eq!(table.rows, rows.collect::<Vec<_>>());
            let addresses = |stack: &Stack| -> Vec<u64> {
                let frames = &table.frames[stack.range()];
                frames.iter().map(|&number| table.addresses[number as usize]).collect()
            };
            let told: Vec<_> = table.stacks.iter().map(addresses).collect();
            prop_assert_eq!(told, stacks);
        }

        #[test]
        fn any_bytes_are_survived(stacks in stacks(), at: prop::sample::Index, by: u8) {
            let mut table = Table::default();
            for mut block in encoded(&stacks) {
                if !block.is_empty() {
                    let at = at.index(block.len());
                    block[at] ^= by;
                }
                let _ = table.add(&block);
            }
            prop_assert!(table.rows.iter().all(|row| (row.0 as usize) < table.stacks.len()));
        }
    }
}
