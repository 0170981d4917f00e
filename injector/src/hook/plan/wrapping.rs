//! Whether hooked functions call hooked functions of other modules: a preloaded `malloc` that asks the
//! next one, a program's own that asks `__libc_malloc`. Then two calls may be one allocation, and the
//! payload is to find out which (`heapattach_abi::nest`), at a price: so only if something says so.

use goblin::elf::dynamic::{DT_STRSZ, DT_STRTAB};

use super::{PlannedHook, Sizes};
use crate::{
    hook::{
        nests::Nests,
        survey::{Loaded, Survey, mapping_of},
    },
    trace::target::Target,
};
use heapattach_entry::Family;
use heapattach_process::{
    addr::RemoteAddr,
    linker::{Link, dynamic_entries},
    memory::Memory,
    proc::maps::Mapping,
};

/// What a wrapper asks the loader for by name.
fn names(family: Family) -> &'static [&'static [u8]] {
    match family {
        Family::Heap => &[b"malloc\0", b"calloc\0", b"realloc\0"],
        Family::Map => &[b"mmap\0", b"mmap64\0", b"munmap\0", b"mremap\0"],
        // A call of these is told whatever it is a part of.
        Family::Kernel => &[],
    }
}

/// No wrapper has more constants than this, all mappings together.
const SEARCHED: u64 = 64 << 20;
const PIECE: usize = 1 << 20;
/// Room for a name that two pieces share.
const OVERLAP: usize = 16;

/// Whether a module that defines a hooked function leads to one that the loader would find later.
pub fn wraps(
    target: &Target,
    survey: &Survey,
    maps: &[Mapping<'_>],
    hooks: &[PlannedHook],
) -> Nests {
    let wraps = |family| wraps_family(target, survey, maps, hooks, family);
    Nests { blocks: wraps(Family::Heap), maps: wraps(Family::Map) }
}

fn wraps_family(
    target: &Target,
    survey: &Survey,
    maps: &[Mapping<'_>],
    hooks: &[PlannedHook],
    family: Family,
) -> bool {
    let is_of_family = |hook: &&PlannedHook| hook.function().family == family;
    let place = |link: &Link| survey.loaded.iter().position(|loaded| loaded.link == *link);
    let hooked = hooks.iter().filter(is_of_family).filter(|hook| hook.is_hooked());
    let definers: Vec<usize> = hooked.filter_map(|hook| place(&hook.definer)).collect();
    let Some(last) = definers.iter().copied().max() else { return false };
    // One that was loaded later than the C library finds that next, too.
    let of_c = hooks.iter().filter(|hook| hook.sizes == Sizes::Head);
    let c: Vec<usize> = of_c.filter_map(|hook| place(&hook.definer)).collect();
    definers.iter().filter(|outer| !c.contains(outer)).any(|&outer| {
        let loaded = &survey.loaded[outer];
        let is_late = c.iter().any(|&c| c < outer);
        (outer < last || is_late)
            && (is_bound_further(survey, outer, is_late, family)
                || asks_the_loader(target, maps, loaded, family))
    })
}

/// Whether it has a slot for a function of the family that it does not define and a later module does, or
/// any other, if it is late itself.
fn is_bound_further(survey: &Survey, outer: usize, is_late: bool, family: Family) -> bool {
    let module = &survey.loaded[outer].module;
    let is_own = |slot: &crate::module::Slot| {
        module.definitions.iter().any(|definition| definition.function == slot.function)
    };
    let mut slots = module.slots.iter().filter(|slot| slot.function.family == family);
    slots.any(|slot| {
        let mut later = survey
            .definitions(slot.function)
            .filter(|(index, _)| *index > outer || is_late && *index != outer);
        !is_own(slot) && later.next().is_some()
    })
}

/// Whether it may ask the loader for such functions at run time: it calls dlsym, and has their names
/// among its constants. By now it may not have asked yet. What has functions that only an allocator
/// has is one itself (jemalloc asks the loader for other things).
fn asks_the_loader(target: &Target, maps: &[Mapping<'_>], loaded: &Loaded, family: Family) -> bool {
    let is_allocator = family == Family::Heap
        && loaded.module.definitions.iter().any(|d| {
            d.function.is_extra
                && !d.function.is_operator
                && d.function.family == Family::Heap
                && !d.function.name.starts_with("__libc_")
        });
    loaded.module.asks_for_symbols
        && !is_allocator
        && names_functions(&target.memory, maps, &loaded.link, names(family))
}

fn names_functions(memory: &Memory, maps: &[Mapping<'_>], link: &Link, names: &[&[u8]]) -> bool {
    let Some(own) = mapping_of(maps, link) else { return false };
    let is_constant = |m: &&Mapping<'_>| {
        (m.inode, m.device) == (own.inode, own.device) && m.readable && !m.writable
    };
    let known = strings_of(memory, link);
    let mut left = SEARCHED;
    for mapping in maps.iter().filter(is_constant) {
        let length = mapping.range.end.offset_from(mapping.range.start).unwrap_or(0).min(left);
        left -= length;
        if has_name(memory, mapping.range.start, length, &known, names) {
            return true;
        }
    }
    false
}

/// The names of its symbols, which say nothing about its constants.
fn strings_of(memory: &Memory, link: &Link) -> std::ops::Range<u64> {
    let entries = dynamic_entries(memory, link.dynamic).unwrap_or_default();
    let entry = |tag| entries.iter().find(|entry| entry.0 == tag).map_or(0, |entry| entry.1);
    // glibc relocates the pointer in place; musl does not.
    let at = entry(DT_STRTAB);
    let at = if at < link.base { at.wrapping_add(link.base) } else { at };
    at..at.saturating_add(entry(DT_STRSZ))
}

fn has_name(
    memory: &Memory,
    start: RemoteAddr,
    length: u64,
    known: &std::ops::Range<u64>,
    names: &[&[u8]],
) -> bool {
    let (mut at, mut bytes) = (0, vec![0; PIECE + OVERLAP]);
    while at < length {
        let most = usize::try_from(length - at).unwrap_or(PIECE).min(bytes.len());
        let Ok(read) = memory.read_some(start.offset(at), &mut bytes[..most]) else { return false };
        let piece = start.get().saturating_add(at);
        let is_constant = |place: usize| !known.contains(&piece.saturating_add(place as u64));
        if names_in(&bytes[..read], names).any(is_constant) {
            return true;
        }
        at += PIECE as u64;
    }
    false
}

/// Where such a name ends a constant: compilers keep one that ends like another only once.
fn names_in(bytes: &[u8], names: &[&[u8]]) -> impl Iterator<Item = usize> {
    (0..bytes.len()).filter(move |&at| names.iter().any(|name| bytes[at..].starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_at_the_end_of_a_constant() {
        let places = |bytes: &[u8]| names_in(bytes, names(Family::Heap)).collect::<Vec<_>>();
        assert_eq!(places(b"\0malloc\0"), [1]);
        assert_eq!(places(b"next_malloc\0calloc\0"), [5, 12]);
        assert_eq!(places(b"malloc stats\0realloc"), [0; 0]);
        assert_eq!(places(b""), [0; 0]);
    }
}
