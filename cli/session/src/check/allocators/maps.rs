//! The memory that allocators mapped for themselves: blocks, and their books between them. A library
//! that allocates blocks and is not the C library is such an allocator; what it maps is its own.

use std::{collections::BTreeSet, ops::Range};

use heapattach_entry::Family;
use heapattach_injector::{
    attach::Way,
    watch::{ActiveHook, Session},
};
use heapattach_process::{
    linker::Link,
    proc::maps::{self, Mapping},
};

use super::super::live_heap::LiveHeap;

/// Functions of the C library that programs hardly ever call, and never through a pointer.
const RARE: [&str; 3] = ["valloc", "pvalloc", "cfree"];

/// Whether a function that allocates or frees blocks is hooked so that no call is missed, or
/// is one of which there are none.
pub fn is_sure(hook: &ActiveHook) -> bool {
    let is_rare = |name: &str, allocator: &str| !allocator.is_empty() || RARE.contains(&name);
    match hook.planned.way {
        Way::Entry(_) | Way::Within { .. } => true,
        Way::Slots { .. } => hook.planned.names.iter().all(|f| is_rare(&f.name, f.allocator)),
        Way::Not { .. } => false,
    }
}

/// The ranges at a moment, of which the memory map is `text`, ascending; no two overlap.
pub fn ranges(session: &Session<'_>, text: &[u8], heap: &LiveHeap) -> Vec<Range<u64>> {
    let maps = maps::parse(text).unwrap_or_default();
    let code: Vec<Range<u64>> =
        allocators(session).into_iter().flat_map(|link| code(&maps, link)).collect();
    let is_theirs = |at: u64| code.iter().any(|range| range.contains(&at));
    let ranges = heap.ranges.iter().filter(|(_, caller)| caller.is_some_and(is_theirs));
    ranges.map(|(range, _)| range.clone()).collect()
}

/// Libraries that define functions which allocate blocks, and none which map pages.
fn allocators<'s>(session: &'s Session<'_>) -> Vec<&'s Link> {
    let definers = |family: Family| {
        let hooks = session.patches.hooks.iter().map(|hook| &hook.planned);
        hooks.filter(move |hook| hook.function().family == family).map(|hook| &hook.definer)
    };
    let c_library: BTreeSet<u64> = definers(Family::Map).map(|link| link.dynamic.get()).collect();
    let mut known = BTreeSet::new();
    definers(Family::Heap)
        .filter(|link| !link.is_executable() && !c_library.contains(&link.dynamic.get()))
        .filter(|link| known.insert(link.dynamic.get()))
        .collect()
}

fn code(maps: &[Mapping<'_>], link: &Link) -> Vec<Range<u64>> {
    let own = maps::covering(maps, link.dynamic).map(|own| (own.device, own.inode));
    let own = own.filter(|(_, inode)| *inode != 0);
    let code = maps.iter().filter(|m| m.executable && own == Some((m.device, m.inode)));
    code.map(|m| m.range.start.get()..m.range.end.get()).collect()
}
