//! What jemalloc's own profiler holds (`opt.prof`): the blocks in use that it sampled, each with the stack that
//! allocated it, from before heapattach came. Each sampled block is an extent of its own, whatever its size,
//! and the extent's books lead to the stack.
//!
//! Read from a process that goes on: what does not fit together is left out, and counted.

use std::collections::HashMap;

use crate::{Moment, walkers::page_tree::Tree};

use super::{extent::Use, root, walk::Heap};

/// In an extent's books: what leads to the counters of its stack and thread.
const COUNTERS: u64 = 80;
/// In these: what leads to the stack.
const STACK: u64 = 96;
/// In that: where the frames are, and how many.
const FRAMES: u64 = 104;
/// jemalloc keeps no more frames.
const MOST_FRAMES: u64 = 512;
/// No more blocks are looked at.
const MOST: usize = 1 << 22;
/// Of those that look sampled, and do so still when they are looked at again, so many percent must have a stack; else the
/// layout is another. Words of another layout lead to code in the place of frames hardly ever; and what a thread has freed
/// into its cache just then has no stack any more, and looks as before.
const SOUND: usize = 10;

/// A block that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its usable bytes.
    pub size: u64,
    /// Its stack: an index into [`Samples::stacks`].
    pub stack: u32,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The blocks in use.
    pub blocks: Vec<Sample>,
    /// Addresses that calls return to, innermost first.
    pub stacks: Vec<Vec<u64>>,
    /// Blocks whose stack could not be read: they came or went just then.
    pub unread: u64,
}

/// Those of all heaps of jemalloc that a process has. None if no profiler samples.
///
/// # Errors
/// Why they cannot be told.
pub fn samples(moment: &Moment<'_>) -> Result<Samples, String> {
    let roots = root::roots(moment);
    if roots.is_empty() {
        return Err("no jemalloc whose layout is known was found".to_owned());
    }
    let mut found = Samples::default();
    let (mut numbers, mut strange) = (HashMap::new(), 0_usize);
    for root in roots {
        strange = strange.saturating_add(of_heap(moment, root, &mut found, &mut numbers)?);
    }
    let sound = found.blocks.len();
    if sound * 100 < sound.saturating_add(strange).saturating_mul(SOUND) {
        return Err(format!(
            "the layout of its profiler is unknown: of {} blocks that look sampled {strange} have no stack",
            sound.saturating_add(strange)
        ));
    }
    Ok(found)
}

/// Answers how many look sampled still, and have no stack.
fn of_heap(
    moment: &Moment<'_>,
    root: Tree,
    found: &mut Samples,
    numbers: &mut HashMap<u64, u32>,
) -> Result<usize, String> {
    let mut strange = 0;
    let heap = Heap::new(moment, root)?;
    let cached: Vec<u64> = heap.cached().collect();
    for extent in
        heap.extents().iter().filter(|extent| extent.used == Use::Active && !extent.is_slab)
    {
        let Some(size) = heap.size(extent) else { continue };
        let counters = moment.word(extent.books + COUNTERS).unwrap_or(0);
        // Small numbers say that it was not sampled. Blocks in caches of threads are free.
        let is_sampled = counters >= 1 << 16 && counters.is_multiple_of(8);
        if !is_sampled || cached.binary_search(&extent.at).is_ok() || found.blocks.len() >= MOST {
            continue;
        }
        let stack = moment.words(counters.saturating_add(STACK), 1).map_or(0, |words| words[0]);
        // One that is just being made has no frames yet, and has them for the next block.
        let number = numbers.get(&stack).copied().or_else(|| {
            let frames = frames(moment, stack)?;
            let number = u32::try_from(found.stacks.len()).ok()?;
            found.stacks.push(frames);
            numbers.insert(stack, number);
            Some(number)
        });
        match number {
            Some(stack) => found.blocks.push(Sample { size, stack }),
            None => {
                found.unread += 1;
                strange += usize::from(is_as_before(moment, extent.books, counters));
            }
        }
    }
    Ok(strange)
}

/// Whether an extent's books say what they said when they were read first: else the block came or went meanwhile.
fn is_as_before(moment: &Moment<'_>, books: u64, counters: u64) -> bool {
    // Words by themselves are kept, and these are read anew.
    let fresh = |at: u64| moment.words(at, 1).and_then(|words| words.first().copied());
    fresh(books) == moment.word(books) && fresh(books + COUNTERS) == Some(counters)
}

/// The frames of a stack; `None` if there is none.
fn frames(moment: &Moment<'_>, stack: u64) -> Option<Vec<u64>> {
    // Four bytes; what is behind them is other.
    let [at, length] = moment.words(stack.checked_add(FRAMES)?, 2)?[..] else { return None };
    let length = length & 0xffff_ffff;
    if length == 0 || length > MOST_FRAMES || !at.is_multiple_of(8) {
        return None;
    }
    let frames = moment.words(at, usize::try_from(length).ok()?)?;
    // Code further out can be unmapped by now.
    let is_code = moment.region(*frames.first()?).is_some_and(|region| region.executable);
    is_code.then_some(frames)
}
