//! What ranges of memory are for, as far as the map and the threads tell. Pure.

use std::ops::Range;

use heapattach_process::{
    addr::RemoteAddr, presence::Presence, proc::maps::Mapping, root::RootKind,
};

use super::thread::Thread;

/// A range of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Where.
    pub range: Range<u64>,
    /// What pointers in it are.
    pub holder: RootKind,
    /// Where its bytes come from.
    pub backing: Backing,
}

/// Where bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Memory, or a copy of a file.
    Memory,
    /// A file on a disk: to read it can take long.
    File,
}

impl Area {
    /// Whether others may write there, too.
    pub fn is_shared(&self) -> bool {
        self.holder == RootKind::Shared
    }

    /// The parts that this process has written to. Shared memory may have been written to by others.
    pub fn written(self, presence: &Presence) -> Vec<Self> {
        let parts = match self.holder {
            RootKind::Shared => return vec![self],
            RootKind::Announced => presence.there(&self.range),
            _ => presence.written(&self.range),
        };
        parts.into_iter().map(|range| Self { range, ..self }).collect()
    }
}

/// A pointer that was not found by looking through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where it leads.
    pub word: u64,
    /// Where it was found.
    pub holder: RootKind,
    /// Whether it means the whole block, wherever it leads into it.
    pub is_whole: bool,
}

/// What is known besides the map.
#[derive(Debug, Default)]
pub struct Known<'a> {
    /// Living threads.
    pub threads: &'a [Thread],
    /// Stacks that the C library keeps for threads to come.
    pub idle_stacks: &'a [Range<u64>],
    /// Heaps of the C library besides the first.
    pub heaps: &'a [Range<u64>],
    /// Where the program says that pointers count.
    pub announced: &'a [Range<u64>],
    /// What is left out: our own memory, and the books of the allocator.
    pub hidden: &'a [Range<u64>],
    /// The most that thread-local variables take below the thread pointer.
    pub tls: u64,
}

/// Behind the thread pointer the C library keeps its own record of a thread.
const THREAD_RECORD: u64 = 4096;

/// Divides the writable memory, and what was writable until it had its values: variables of a module
/// that are sealed by its loader lie just before the others; a program seals memory of its own, and code
/// that it makes.
pub fn areas(maps: &[Mapping<'_>], known: &Known<'_>) -> Vec<Area> {
    let mut areas = Vec::new();
    let mut module_end = None;
    for (index, mapping) in maps.iter().enumerate() {
        let range = mapping.range.start.get()..mapping.range.end.get();
        let follows_module = module_end == Some(range.start) && mapping.label().is_empty();
        let has_file = mapping.inode != 0 && !mapping.is_huge();
        let is_module = has_file && !mapping.shared && !is_device(mapping);
        // Variables that are zero at first have no bytes in the file, and follow those that have.
        module_end = is_module.then_some(range.end);
        let is_sealed = || {
            let after = maps.get(index + 1).filter(|after| after.range.start == mapping.range.end);
            let is_same = |after: &Mapping<'_>| {
                after.writable && (after.device, after.inode) == (mapping.device, mapping.inode)
            };
            is_module && !mapping.executable && after.is_some_and(is_same)
        };
        // Memory without a file was written to before it was sealed, or was made code.
        let is_own = || !mapping.shared && mapping.inode == 0 && is_nameless(mapping);
        if !mapping.readable || !(mapping.writable || is_sealed() || is_own()) {
            continue;
        }
        let holder = match holder(mapping, known) {
            Some(RootKind::Mapped) if follows_module => RootKind::Globals,
            Some(holder) => holder,
            None => continue,
        };
        let first = areas.len();
        areas.push(Area { range: range.clone(), holder, backing: backing(mapping) });
        // What looks like a stack, as a thread's record is at its end, may have a heap before that.
        if matches!(holder, RootKind::Mapped | RootKind::Stacks) {
            for heap in known.heaps {
                paint(&mut areas, first, heap, Some(RootKind::Heap));
            }
        }
        for idle in known.idle_stacks {
            paint(&mut areas, first, idle, None);
        }
        if holder != RootKind::Heap {
            paint_stacks(&mut areas, first, mapping, known);
        }
        for thread in known.threads {
            let start = thread.pointer.saturating_sub(known.tls);
            let end = thread.pointer.saturating_add(THREAD_RECORD);
            // On a thread's own stack the record is the last there is.
            paint(&mut areas, first, &(start..end), Some(RootKind::Tls));
        }
        for announced in known.announced {
            paint(&mut areas, first, announced, Some(RootKind::Announced));
        }
        for hidden in known.hidden {
            paint(&mut areas, first, hidden, None);
        }
    }
    areas
}

/// What a mapping is; `None` for what is not looked at.
fn holder(mapping: &Mapping<'_>, known: &Known<'_>) -> Option<RootKind> {
    let label = mapping.label().as_encoded_bytes();
    if label.starts_with(b"[v") || is_device(mapping) {
        return None;
    }
    if mapping.shared {
        // What has no path is a queue of the kernel's.
        return (is_memory(label) || label.starts_with(b"/")).then_some(RootKind::Shared);
    }
    if label == b"[heap]" {
        return Some(RootKind::Heap);
    }
    let has = |at: u64| mapping.range.contains(&RemoteAddr::new(at));
    let is_stack = |thread: &Thread| thread.is_on_own_stack(mapping);
    if label == b"[stack]" || known.threads.iter().any(|t| is_stack(t) && has(t.pointer)) {
        return Some(RootKind::Stacks);
    }
    let has_file = mapping.inode != 0 && !mapping.is_huge();
    Some(if has_file { RootKind::Globals } else { RootKind::Mapped })
}

/// Whether the kernel put nothing of its own there.
fn is_nameless(mapping: &Mapping<'_>) -> bool {
    let label = mapping.label().as_encoded_bytes();
    label.is_empty() || label.starts_with(b"[anon:")
}

fn backing(mapping: &Mapping<'_>) -> Backing {
    let label = mapping.label().as_encoded_bytes();
    if mapping.shared && !is_memory(label) { Backing::File } else { Backing::Memory }
}

/// Of a stack that a thread runs on, only what is above its stack pointer means anything.
fn paint_stacks(areas: &mut Vec<Area>, first: usize, mapping: &Mapping<'_>, known: &Known<'_>) {
    let inside = |at: u64| mapping.range.contains(&RemoteAddr::new(at));
    let is_whole_stack = areas.get(first).is_some_and(|area| area.holder == RootKind::Stacks);
    let here = known.threads.iter().filter(|thread| inside(thread.stack));
    let start = mapping.range.start.get();
    match here.map(|thread| thread.alive_from).min() {
        Some(lowest) if is_whole_stack => paint(areas, first, &(start..lowest), None),
        // No thread runs on it just now: all of it may mean something.
        _ => {}
    }
}

/// Gives a part of the areas from `first` on to another holder, or to none.
fn paint(areas: &mut Vec<Area>, first: usize, part: &Range<u64>, holder: Option<RootKind>) {
    let old: Vec<Area> = areas.drain(first..).collect();
    for area in old {
        let start = part.start.max(area.range.start);
        let end = part.end.min(area.range.end);
        if start >= end {
            areas.push(area);
            continue;
        }
        let pieces = [
            (area.range.start..start, Some(area.holder)),
            (start..end, holder),
            (end..area.range.end, Some(area.holder)),
        ];
        for (range, holder) in pieces {
            if let Some(holder) = holder.filter(|_| !range.is_empty()) {
                areas.push(Area { range, holder, backing: area.backing });
            }
        }
    }
}

/// Reading a device can do anything.
fn is_device(mapping: &Mapping<'_>) -> bool {
    let label = mapping.label().as_encoded_bytes();
    label.starts_with(b"/dev/") && !is_memory(label)
}

/// Shared memory that is no file on a disk: reading it costs no more than reading it.
fn is_memory(label: &[u8]) -> bool {
    let kinds: [&[u8]; 5] = [b"/memfd:", b"/dev/zero", b"/dev/shm/", b"/SYSV", b"[anon_shmem"];
    kinds.iter().any(|kind| label.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use heapattach_process::proc::maps::parse;

    const MAPS: &[u8] = b"3fe000-400000 r--p 0 0:1 1 /exe\n\
        400000-400800 r-xp 0 0:1 1 /exe\n\
        400800-401000 r--p 0 0:1 1 /exe\n\
        401000-402000 rw-p 0 0:1 1 /exe\n\
        402000-404000 rw-p 0 0:0 0 \n\
        600000-700000 rw-p 0 0:0 0 [heap]\n\
        7f0000000000-7f0000001000 ---p 0 0:0 0 \n\
        7f0000001000-7f0000101000 rw-p 0 0:0 0 \n\
        7f0000200000-7f0000201000 rw-s 0 0:1 9 /memfd:ring (deleted)\n\
        7f0000300000-7f0000301000 rw-s 0 0:1 9 /var/data\n\
        7f0000400000-7f0000402000 rw-p 0 0:0 0 \n\
        7f0000800000-7f0001000000 rw-p 0 0:e 55 /anon_hugepage (deleted)\n\
        7fff00000000-7fff00010000 rw-p 0 0:0 0 [stack]\n";

    fn find(known: &Known<'_>, at: u64) -> Option<RootKind> {
        let maps = parse(MAPS).unwrap();
        let areas = areas(&maps, known);
        assert!(areas.is_sorted_by(|a, b| a.range.end <= b.range.start), "{areas:?}");
        areas.iter().find(|area| area.range.contains(&at)).map(|area| area.holder)
    }

    fn thread(stack: u64, pointer: u64) -> Thread {
        Thread { stack, pointer, alive_from: stack - crate::arch::RED_ZONE }
    }

    #[test]
    fn the_frames_of_exit_are_left_out() {
        let from = 0x7fff_0000_9000;
        let threads = [Thread { alive_from: from, ..thread(0x7fff_0000_8000, 0x7f00_0040_0800) }];
        let known = Known { threads: &threads, ..Known::default() };
        assert_eq!(find(&known, from - 8), None);
        assert_eq!(find(&known, from), Some(RootKind::Stacks));
    }

    #[test]
    fn tells_modules_heap_and_other_memory_apart() {
        let known = Known::default();
        let expected = [
            (0x3f_e000, None),
            (0x40_0000, None),
            (0x40_0800, Some(RootKind::Globals)),
            (0x40_1000, Some(RootKind::Globals)),
            (0x40_3fff, Some(RootKind::Globals)),
            (0x60_0000, Some(RootKind::Heap)),
            (0x7f00_0000_0000, None),
            (0x7f00_0000_1000, Some(RootKind::Mapped)),
            (0x7f00_0020_0000, Some(RootKind::Shared)),
            (0x7f00_0030_0000, Some(RootKind::Shared)),
            (0x7f00_0090_0000, Some(RootKind::Mapped)),
            (0x7fff_0000_0000, Some(RootKind::Stacks)),
        ];
        for (at, holder) in expected {
            assert_eq!(find(&known, at), holder, "{at:#x}");
        }
    }

    #[test]
    fn sealed_memory_and_made_code_hold_what_they_lead_to() {
        let maps = b"1000-2000 r--p 0 0:0 0 \n\
            2000-3000 r-xp 0 0:0 0 [anon:code]\n\
            3000-4000 ---p 0 0:0 0 \n\
            4000-5000 r--s 0 0:1 9 /dev/shm/x\n\
            5000-6000 r-xp 0 0:0 0 [vdso]\n\
            6000-7000 r-xp 0 0:0 0 [uprobes]\n\
            7000-8000 r--p 0 0:1 4 /lib\n";
        let maps = parse(maps).unwrap();
        let areas = areas(&maps, &Known::default());
        let told: Vec<_> = areas.iter().map(|area| (area.range.start, area.holder)).collect();
        assert_eq!(told, [(0x1000, RootKind::Mapped), (0x2000, RootKind::Mapped)]);
    }

    #[test]
    fn a_heap_that_lies_before_the_first_threads_record_is_a_heap() {
        let threads = [thread(0x7fff_0000_8000, 0x7f00_0010_0700)];
        let heap = 0x7f00_0000_1000..0x7f00_000f_0000;
        let known = Known { threads: &threads, heaps: slice::from_ref(&heap), ..Known::default() };
        assert_eq!(find(&known, 0x7f00_0000_1000), Some(RootKind::Heap));
        assert_eq!(find(&known, 0x7f00_0010_0000), Some(RootKind::Stacks));
    }

    #[test]
    fn a_heap_in_huge_pages_is_a_heap() {
        let heap = 0x7f00_0080_0000..0x7f00_00a0_0000;
        let known = Known { heaps: slice::from_ref(&heap), ..Known::default() };
        assert_eq!(find(&known, 0x7f00_0080_0000), Some(RootKind::Heap));
        assert_eq!(find(&known, 0x7f00_00a0_0000), Some(RootKind::Mapped));
    }

    #[test]
    fn a_stack_is_looked_at_from_its_pointer_up() {
        let threads = [
            thread(0x7fff_0000_8000, 0x7f00_0040_0800),
            thread(0x7f00_0008_0000, 0x7f00_0010_0700),
        ];
        let known = Known { threads: &threads, tls: 0x100, ..Known::default() };
        let expected = [
            (0x7fff_0000_7f7f, None),
            (0x7fff_0000_7f80, Some(RootKind::Stacks)),
            (0x7f00_0007_ff7f, None),
            (0x7f00_0007_ff80, Some(RootKind::Stacks)),
            (0x7f00_0010_05ff, Some(RootKind::Stacks)),
            (0x7f00_0010_0600, Some(RootKind::Tls)),
            (0x7f00_0010_0fff, Some(RootKind::Tls)),
            (0x7f00_0040_0700, Some(RootKind::Tls)),
            (0x7f00_0040_1fff, Some(RootKind::Mapped)),
        ];
        for (at, holder) in expected {
            assert_eq!(find(&known, at), holder, "{at:#x}");
        }
    }

    #[test]
    fn a_stack_that_its_thread_has_left_is_looked_at_whole() {
        let threads = [thread(0x60_8000, 0x7f00_0010_0700)];
        let known = Known { threads: &threads, tls: 0x100, ..Known::default() };
        assert_eq!(find(&known, 0x7f00_0000_1000), Some(RootKind::Stacks));
        assert_eq!(find(&known, 0x60_0000), Some(RootKind::Heap));
    }

    #[test]
    fn what_is_hidden_is_left_out() {
        let (idle, hidden) = (0x7f00_0000_1000..0x7f00_0010_1000, 0x40_1800..0x40_2800);
        let (idle_stacks, hidden) = (slice::from_ref(&idle), slice::from_ref(&hidden));
        let known = Known { idle_stacks, hidden, ..Known::default() };
        assert_eq!(find(&known, 0x7f00_0005_0000), None);
        assert_eq!(find(&known, 0x40_17ff), Some(RootKind::Globals));
        assert_eq!(find(&known, 0x40_1800), None);
        assert_eq!(find(&known, 0x40_2800), Some(RootKind::Globals));
    }
}
