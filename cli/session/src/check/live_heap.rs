//! What was known of the heap at one moment: all that a check needs of the records, so that they can
//! be taken in again while it is made.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use heapattach_injector::watch::Lost;
use heapattach_process::event::StackId;

use crate::watch::intake::Recorder;
use heapattach_profile::{LiveBlock, Mapped, Oddities, Tick};
use heapattach_reach::Block;
use heapattach_report::Heap;

use super::named;

/// The blocks and mappings that live, and what was found wrong with the records of them.
#[derive(Debug, Default)]
pub struct LiveHeap {
    /// The blocks that live, and when each was allocated.
    pub blocks: Vec<(Block, Tick)>,
    /// Pages that live, and who mapped them: the address that the call returned to.
    pub ranges: Vec<(Range<u64>, Option<u64>)>,
    /// Mappings of which each may be leaked as a whole, and when each was made; none has a block in it.
    pub mappings: Vec<(Block, Tick)>,
    /// The heap as a whole.
    pub heap: Heap,
    /// What did not add up.
    pub oddities: Oddities,
    /// Records that were never finished.
    pub unfinished: u64,
    /// Records that make no sense.
    pub absurd: u64,
    /// What found no room in rings by then, if that was asked for.
    pub lost: Lost,
    /// Addresses in blocks that the program says are not leaked.
    pub ignored: Vec<u64>,
    /// Stacks of mappings.
    mapped: HashSet<u32>,
    /// Return addresses, the innermost first.
    stacks: HashMap<u32, Box<[u64]>>,
}

impl LiveHeap {
    /// As it is now.
    pub fn of(recorder: &mut Recorder) -> Self {
        let heap = named::heap(recorder);
        let profile = recorder.profile();
        let frames = |stack: StackId| {
            let frames = &recorder.records.stack(stack)?.frames;
            Some(frames.iter().map(|at| at.get()).collect::<Box<[u64]>>())
        };
        let mut stacks = HashMap::new();
        let block = |LiveBlock { at, size, stack, birth }| (Block { at, size, stack }, birth);
        let mut blocks: Vec<_> = profile.live_blocks().map(block).collect();
        recorder.announced().add_to(&mut blocks);
        for (block, _) in &blocks {
            stacks
                .entry(block.stack)
                .or_insert_with(|| frames(StackId(block.stack)).unwrap_or_default());
        }
        let caller = |stack| Some(recorder.records.stack(stack)?.frames.first()?.get());
        let (mut ranges, mut mappings, mut mapped) = (Vec::new(), Vec::new(), HashSet::new());
        for (Mapped { range, birth, is_whole, .. }, stack) in profile.live_ranges() {
            if is_whole {
                let (at, size) = (range.start, range.end - range.start);
                mapped.insert(stack.0);
                mappings.push((Block { at, size, stack: stack.0 }, birth));
                stacks.entry(stack.0).or_insert_with(|| frames(stack).unwrap_or_default());
            }
            ranges.push((range, caller(stack)));
        }
        Self {
            ranges,
            mappings,
            mapped,
            heap,
            oddities: profile.oddities(),
            unfinished: recorder.records.torn().saturating_sub(recorder.records.absurd()),
            absurd: recorder.records.absurd(),
            lost: Lost::default(),
            ignored: recorder.spoken().ignored().collect(),
            blocks,
            stacks,
        }
    }

    /// Whether a stack is of a mapping.
    pub fn is_mapping(&self, stack: u32) -> bool {
        self.mapped.contains(&stack)
    }

    /// The return addresses of a stack that has blocks or mappings.
    pub fn stack(&self, stack: u32) -> &[u64] {
        self.stacks.get(&stack).map_or(&[], |frames| frames)
    }
}
