//! Blocks from before the attach: what allocators know of a moment besides what was recorded. An allocator's
//! blocks count where all its own checks hold, so that the rest of its memory is known to be its books and holds
//! nothing; where one does not hold, all memory of it is unknown, and holds what it leads to.
//!
//! It is looked for in what is kept of a moment once the target goes on, never in a stop.

use std::{collections::HashMap, ops::Range};

use heapattach_census::{
    Answer, Moment, Sink, State, regions,
    types::{ClassId, ClassTally},
    walkers,
};
use heapattach_injector::moment::{Image, Scene};
use heapattach_process::proc::maps;
use heapattach_reach::{Block, Pointer, RootKind, UNRECORDED, Unrecorded};
use heapattach_report::{OlderGroup, OlderReport};
use heapattach_text::printable::printable;

use super::{
    super::live_heap::LiveHeap,
    kept::{Kept, merged, thread},
};

/// Groups that are told.
const GROUPS: usize = 100;
/// So much of a stack is where a call of an allocator keeps what it works on.
const FRAMES: usize = 1024;
/// Where glibc's chunk begins before its block.
const HEAD: u64 = 16;

/// All of it.
#[derive(Debug, Default)]
pub(in crate::check) struct Older {
    /// Blocks in use that were not recorded; the number of a stack is that of a group.
    pub(in crate::check) blocks: Vec<Block>,
    /// What is the allocators' own but for blocks; ascending, no two overlap.
    pub(in crate::check) books: Vec<Range<u64>>,
    groups: Vec<Group>,
    /// Names of classes, by their numbers.
    names: Vec<String>,
    allocators: Vec<String>,
    unknown: Vec<String>,
}

/// A class, or none, and a size.
type Group = (Option<ClassId>, u64);

impl Older {
    /// What allocators know; `None` if the moment is not kept.
    pub(in crate::check) fn of(
        image: &Image<'_>,
        pid: i32,
        scene: &Scene,
        heap: &LiveHeap,
    ) -> Option<Self> {
        if !image.is_kept() {
            return None;
        }
        let maps = maps::parse(&scene.maps).ok()?;
        let regions = regions(&maps);
        let memory = Kept::of(image, pid, &regions);
        let threads = scene.threads.iter().map(thread).collect();
        let moment = Moment::new(&memory, regions, threads);
        let mut found = Self::default();
        let mut collected = Collected::new(&moment);
        // What inner heaps have is looked through as a whole: their blocks are the runtime's to collect.
        for walker in walkers::ALL.into_iter().filter(|walker| !walker.is_inner()) {
            let known = collected.blocks.len();
            let (name, answer) = (walker.name(), walker.walk(&moment, &mut collected));
            let why = match answer {
                Answer::Absent => continue,
                Answer::Refused(why) => Some(why),
                Answer::Walked(walk) => walk.uncertainty(walker).or_else(|| {
                    found.allocators.push(name.to_owned());
                    let own = |arena: heapattach_census::Arena| [arena.memory, arena.books];
                    found.books.extend(walk.arenas.into_iter().flat_map(own).flatten());
                    None
                }),
            };
            if let Some(why) = why {
                collected.blocks.truncate(known);
                found.unknown.push(format!("{name}: {}", printable(&why)));
            }
        }
        found.books = merged(std::mem::take(&mut found.books));
        let Collected { blocks, groups, types } = collected;
        found.blocks = unrecorded(blocks, heap);
        found.groups = vec![(None, 0); groups.len()];
        for (group, number) in groups {
            if let Some(place) = found.groups.get_mut(index(number)) {
                *place = group;
            }
        }
        found.names = types.into_names();
        Some(found)
    }

    /// Blocks that a thread may be about to free or to get: it knows them by their chunks alone.
    pub(in crate::check) fn in_flight(&self, image: &Image<'_>, scene: &Scene) -> Vec<Pointer> {
        let mut pointers = Vec::new();
        for standing in &scene.threads {
            let mut frames = [0; FRAMES];
            let read = image.read_parts(standing.stack & !7, &mut frames);
            let (words, _) = frames[..read].as_chunks::<8>();
            let words = words.iter().map(|word| u64::from_le_bytes(*word));
            for word in words.chain(standing.words).map(|word| word.wrapping_add(HEAD)) {
                if self.blocks.binary_search_by_key(&word, |block| block.at).is_ok() {
                    pointers.push(Pointer { word, root: RootKind::Stacks, holds_whole: true });
                }
            }
        }
        pointers
    }

    /// What is to be told of it.
    pub(in crate::check) fn report(&self, found: &Unrecorded) -> OlderReport {
        let [direct, indirect, possible, reachable] = found.sums;
        let group = |finding: &heapattach_reach::Finding| {
            let (class, size) = self.groups.get(index(finding.stack)).copied().unwrap_or_default();
            let class = class.and_then(|class| self.names.get(usize::try_from(class.0).ok()?));
            OlderGroup {
                kind: Some(finding.kind),
                class: class.map(|class| printable(class)),
                size,
                own: finding.own,
                held: finding.held,
            }
        };
        OlderReport {
            allocators: self.allocators.clone(),
            unknown: self.unknown.clone(),
            direct,
            indirect,
            possible,
            reachable,
            groups: found.leaked.iter().take(GROUPS).map(group).collect(),
            more_groups: found.leaked.len().saturating_sub(GROUPS),
        }
    }
}

/// Blocks of which none of what was recorded is a part.
fn unrecorded(mut blocks: Vec<Block>, heap: &LiveHeap) -> Vec<Block> {
    let known = heap.blocks.iter().chain(&heap.mappings);
    let known = known.map(|(block, _)| block.at..block.end().max(block.at.saturating_add(1)));
    let known = merged(known.collect());
    blocks.sort_unstable_by_key(|block| block.at);
    blocks.retain(|block| {
        let next = known.partition_point(|range| range.end <= block.at);
        known.get(next).is_none_or(|range| range.start >= block.end())
    });
    blocks
}

/// The place of a group by the number of its stack.
fn index(stack: u32) -> usize {
    usize::try_from(stack & !UNRECORDED).unwrap_or(usize::MAX)
}

/// Blocks in use, with the number of their group in the place of a stack.
struct Collected<'a, 'm> {
    blocks: Vec<Block>,
    groups: HashMap<Group, u32>,
    types: ClassTally<'a, 'm>,
}

impl<'a, 'm> Collected<'a, 'm> {
    fn new(moment: &'a Moment<'m>) -> Self {
        Self { blocks: Vec::new(), groups: HashMap::new(), types: ClassTally::new(moment) }
    }
}

impl Sink for Collected<'_, '_> {
    fn block(&mut self, block: heapattach_census::Block) {
        if block.state != State::Used {
            return;
        }
        self.types.block(block);
        let next = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let number = *self.groups.entry((self.types.latest(), block.size)).or_insert(next);
        self.blocks.push(Block { at: block.at, size: block.size, stack: UNRECORDED | number });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_profile::Tick;

    fn block(at: u64, size: u64, stack: u32) -> Block {
        Block { at, size, stack }
    }

    #[test]
    fn a_block_of_which_a_part_was_recorded_is_not_older() {
        let recorded = [block(0x1000, 24, 1), block(0x2040, 8, 2), block(0x3000, 0, 3)];
        let tick = Tick::after(std::time::Duration::ZERO);
        let mut heap = LiveHeap::default();
        heap.blocks = recorded.iter().map(|block| (*block, tick)).collect();
        let told = [0x5000, 0x1000, 0x2000, 0x3000, 0x4000].map(|at| block(at, 0x80, UNRECORDED));
        let older: Vec<u64> = unrecorded(told.to_vec(), &heap).iter().map(|b| b.at).collect();
        assert_eq!(older, [0x4000, 0x5000]);
    }

    #[test]
    fn a_group_is_found_by_the_number_of_its_stack() {
        assert_eq!(index(UNRECORDED | 7), 7);
    }
}
