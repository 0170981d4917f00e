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
const LENGTH: u64 = 112;
/// jemalloc keeps no more frames.
const MOST_FRAMES: u64 = 512;
/// No more blocks are looked at.
const MOST: usize = 1 << 22;
/// Of those that look sampled, so many percent must have a stack; else the layout is another.
const SOUND: usize = 90;

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
    let mut numbers = HashMap::new();
    for root in roots {
        of_heap(moment, root, &mut found, &mut numbers)?;
    }
    let (sound, unread) = (found.blocks.len(), usize::try_from(found.unread).unwrap_or(usize::MAX));
    if sound * 100 < sound.saturating_add(unread).saturating_mul(SOUND) {
        return Err(format!(
            "the layout of its profiler is unknown: of {} blocks that look sampled {unread} have no stack",
            sound.saturating_add(unread)
        ));
    }
    Ok(found)
}

fn of_heap(
    moment: &Moment<'_>,
    root: Tree,
    found: &mut Samples,
    numbers: &mut HashMap<u64, Option<u32>>,
) -> Result<(), String> {
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
        let stack = moment.word(counters.saturating_add(STACK)).unwrap_or(0);
        let number = *numbers.entry(stack).or_insert_with(|| {
            let frames = frames(moment, stack)?;
            found.stacks.push(frames);
            u32::try_from(found.stacks.len() - 1).ok()
        });
        match number {
            Some(stack) => found.blocks.push(Sample { size, stack }),
            None => found.unread += 1,
        }
    }
    Ok(())
}

/// The frames of a stack; `None` if there is none.
fn frames(moment: &Moment<'_>, stack: u64) -> Option<Vec<u64>> {
    let at = moment.word(stack.checked_add(FRAMES)?)?;
    // Four bytes; what is behind them is other.
    let length = moment.word(stack.checked_add(LENGTH)?)? & 0xffff_ffff;
    if length == 0 || length > MOST_FRAMES || !at.is_multiple_of(8) {
        return None;
    }
    let frames = moment.words(at, usize::try_from(length).ok()?)?;
    // Code further out can be unmapped by now.
    let is_code = moment.region(*frames.first()?).is_some_and(|region| region.executable);
    is_code.then_some(frames)
}
