//! Which mappings of the session may be called leaked. Only those of which it is certain that they are the
//! program's own memory: private, anonymous, to be read and written, mapped by code that is none of an
//! allocator's, a runtime's or the C library's. In none of them is a block, or the stack of a thread; and
//! no part of one was unmapped or mapped anew, as a program does that divides its pages by itself.

use std::ops::Range;

use heapattach_injector::{
    moment::Scene,
    watch::{ActiveHook, Session},
};
use heapattach_ledger::{
    FrameReport,
    hidden::{Hidden, Part},
};
use heapattach_process::{
    addr::RemoteAddr,
    proc::maps::{self, Mapping},
};
use heapattach_profile::Tick;
use heapattach_reach::{Block, RootKind};

use super::{allocators::maps::is_sure, live_heap::LiveHeap};

/// Why none of them is judged.
const UNSEEN: &str =
    "mappings are not judged: munmap or mremap may be called unseen (--hooks entry sees all calls)";

/// Leaves those that may be called leaked; answers why there are none, if none can be judged.
pub fn judge(session: &Session<'_>, scene: &Scene, heap: &mut LiveHeap) -> Option<String> {
    if heap.mappings.is_empty() {
        return None;
    }
    if !session.patches.hooks.iter().filter(|hook| unmaps(hook)).all(is_sure) {
        heap.mappings.clear();
        return Some(UNSEEN.to_owned());
    }
    // Those of the moment: the target may have gone on, and unmapped some since, or ended.
    let maps = maps::parse(&scene.maps).unwrap_or_default();
    let mut blocks: Vec<u64> = heap.blocks.iter().map(|(block, _)| block.at).collect();
    blocks.sort_unstable();
    let announced = scene.areas.iter().filter(|area| area.holder == RootKind::Announced);
    let announced: Vec<Range<u64>> = announced.map(|area| area.range.clone()).collect();
    // The kernel makes one mapping of those that touch: an area of stacks may have others behind the stack.
    let mut used: Vec<u64> = scene.threads.iter().flat_map(|t| [t.stack, t.pointer]).collect();
    used.sort_unstable();
    let hidden = Hidden::default();
    let mappings = std::mem::take(&mut heap.mappings);
    let is_theirs = |stack: u32| {
        let caller = heap.stack(stack).first();
        caller.is_some_and(|at| is_programs(&maps, at.saturating_sub(1), &hidden))
    };
    let is_judged = |(block, _): &(Block, Tick)| {
        is_plain(&maps, block.at..block.end())
            && !has_any(&blocks, block)
            && !has_any(&used, block)
            && !announced.iter().any(|range| range.start < block.end() && block.at < range.end)
            && is_theirs(block.stack)
    };
    heap.mappings = mappings.into_iter().filter(is_judged).collect();
    None
}

/// Whether a hook is of a function that unmaps.
fn unmaps(hook: &ActiveHook) -> bool {
    hook.planned.names.iter().any(|f| matches!(&*f.name, "munmap" | "mremap"))
}

/// Whether one of the sorted addresses is in a mapping.
fn has_any(addresses: &[u64], mapping: &Block) -> bool {
    let first = addresses.partition_point(|at| *at < mapping.at);
    addresses.get(first).is_some_and(|at| *at < mapping.end())
}

/// Whether all of a range is private, anonymous, and to be read and written but not run.
fn is_plain(maps: &[Mapping<'_>], range: Range<u64>) -> bool {
    let first = maps.partition_point(|mapping| mapping.range.end.get() <= range.start);
    let mut at = range.start;
    for mapping in &maps[first..] {
        let label = mapping.label().as_encoded_bytes();
        let is_anonymous = mapping.inode == 0 && (label.is_empty() || label.starts_with(b"[anon"));
        let is_usual = mapping.readable && mapping.writable && !mapping.executable;
        if mapping.range.start.get() > at || mapping.shared || !is_anonymous || !is_usual {
            return false;
        }
        at = mapping.range.end.get();
        if at >= range.end {
            return true;
        }
    }
    false
}

/// Whether an address is in code of a file that is none of the libraries and runtimes which map for others.
fn is_programs(maps: &[Mapping<'_>], at: u64, hidden: &Hidden) -> bool {
    let covering = maps::covering(maps, RemoteAddr::new(at));
    let file = covering.and_then(Mapping::file);
    file.is_some_and(|file| {
        let module = file.to_string_lossy().into_owned();
        hidden.part(&FrameReport { module, ..FrameReport::default() }) == Part::Other
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"1000-3000 rw-p 00000000 00:00 0 \n\
        3000-4000 rw-p 00000000 00:00 0    [anon:buffers]\n\
        4000-5000 ---p 00000000 00:00 0 \n\
        5000-6000 rw-s 00000000 00:01 7    /dev/shm/x\n\
        6000-7000 rwxp 00000000 00:00 0 \n\
        8000-9000 r-xp 00000000 08:02 9    /opt/server\n\
        9000-a000 r-xp 00000000 08:02 10    /usr/lib/libc.so.6\n\
        a000-b000 r-xp 00000000 08:02 11    /usr/bin/python3.11\n";

    #[test]
    fn only_what_is_private_and_anonymous_and_written_to_is_judged() {
        let maps = maps::parse(MAPS).unwrap();
        let ranges = [0x1000..0x2000, 0x2000..0x4000, 0x3000..0x5000, 0x5000..0x6000];
        let told = ranges.map(|range| is_plain(&maps, range));
        assert_eq!(told, [true, true, false, false]);
        assert!(!is_plain(&maps, 0x6000..0x7000), "code");
        assert!(!is_plain(&maps, 0x7000..0x8000) && !is_plain(&maps, 0xf000..0x10000), "gone");
    }

    #[test]
    fn what_maps_for_others_is_not_the_programs() {
        let maps = maps::parse(MAPS).unwrap();
        let told = [0x8100, 0x9100, 0xa100, 0x6100, 0x7100]
            .map(|at| is_programs(&maps, at, &Hidden::default()));
        assert_eq!(told, [true, false, false, false, false]);
    }

    #[test]
    fn a_mapping_with_a_block_in_it_is_an_allocators() {
        let mapping = Block { at: 0x1000, size: 0x1000, stack: 1 };
        assert!(has_any(&[0x500, 0x1ff0], &mapping) && has_any(&[0x1000], &mapping));
        assert!(!has_any(&[0x500, 0x2000], &mapping) && !has_any(&[], &mapping));
    }
}
