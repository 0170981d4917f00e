//! The list itself: what C libraries have, and what the allocators that are linked into programs
//! call their functions.

use heapattach_abi::kind::HookKind;

use super::Function;
use crate::entry::Family;

/// The functions of C libraries. `reallocarray` is missing on purpose: it calls realloc through its
/// slot.
const HEAP: &[(&str, HookKind)] = &[
    ("malloc", HookKind::Malloc),
    ("calloc", HookKind::Calloc),
    ("realloc", HookKind::Realloc),
    ("free", HookKind::Free),
    ("cfree", HookKind::Free),
    ("posix_memalign", HookKind::PosixMemalign),
    ("aligned_alloc", HookKind::Memalign),
    ("memalign", HookKind::Memalign),
    ("valloc", HookKind::Malloc),
    ("pvalloc", HookKind::Malloc),
    ("free_sized", HookKind::Free),
    ("free_aligned_sized", HookKind::Free),
];

const PAGES: &[(&str, HookKind)] = &[
    ("mmap", HookKind::Map),
    ("mmap64", HookKind::Map),
    ("munmap", HookKind::Unmap),
    ("mremap", HookKind::Remap),
];

/// What allocators put before those names to have them beside the C library's: glibc and musl
/// themselves, jemalloc, its Rust crate, tcmalloc, mimalloc, snmalloc, rpmalloc, tbb, dlmalloc.
const PREFIXES: &[&str] = &["__libc_", "je_", "_rjem_", "tc_", "mi_", "sn_", "rp", "scalable_", "dl"];

/// Other names of the same.
const SAME: &str = "__libc_";

/// What jemalloc has besides; with its prefixes too.
const JEMALLOC: &[(&str, HookKind)] = &[
    ("mallocx", HookKind::Malloc),
    ("rallocx", HookKind::Realloc),
    ("sdallocx", HookKind::Free),
    ("dallocx", HookKind::Free),
];
const JEMALLOC_PREFIXES: &[&str] = &["", "je_", "_rjem_"];

/// What others have besides. `xallocx` and `mi_expand` are missing: a block stays where it is.
const OTHERS: &[(&str, HookKind)] = &[
    ("tc_malloc_skip_new_handler", HookKind::Malloc),
    ("mi_zalloc", HookKind::Malloc),
    ("mi_malloc_small", HookKind::Malloc),
    ("mi_zalloc_small", HookKind::Malloc),
    ("mi_mallocn", HookKind::Calloc),
    ("mi_reallocf", HookKind::Realloc),
    ("mi_rezalloc", HookKind::Realloc),
    ("mi_malloc_aligned", HookKind::Malloc),
    ("mi_malloc_aligned_at", HookKind::Malloc),
    ("mi_zalloc_aligned", HookKind::Malloc),
    ("mi_zalloc_aligned_at", HookKind::Malloc),
    ("mi_calloc_aligned", HookKind::Calloc),
    ("mi_calloc_aligned_at", HookKind::Calloc),
    ("mi_realloc_aligned", HookKind::Realloc),
    ("mi_realloc_aligned_at", HookKind::Realloc),
    ("mi_rezalloc_aligned", HookKind::Realloc),
    ("mi_rezalloc_aligned_at", HookKind::Realloc),
    ("mi_free_size", HookKind::Free),
    ("mi_free_size_aligned", HookKind::Free),
    ("mi_free_aligned", HookKind::Free),
    ("mi_heap_malloc", HookKind::Memalign),
    ("mi_heap_zalloc", HookKind::Memalign),
    ("mi_heap_malloc_small", HookKind::Memalign),
    ("mi_heap_malloc_aligned", HookKind::Memalign),
    ("mi_heap_zalloc_aligned", HookKind::Memalign),
    ("sn_rust_alloc", HookKind::Memalign),
    ("sn_rust_alloc_zeroed", HookKind::Memalign),
    ("sn_rust_dealloc", HookKind::Free),
    ("scalable_aligned_malloc", HookKind::Malloc),
    ("scalable_aligned_realloc", HookKind::Realloc),
    ("scalable_aligned_free", HookKind::Free),
];

/// The whole list.
pub(super) fn functions() -> Vec<Function> {
    let heap = HEAP.iter().map(|&(name, kind)| function(name, Family::Heap, kind, false));
    let pages = PAGES.iter().map(|&(name, kind)| function(name, Family::Map, kind, false));
    // Their internal names, by which static programs call them too.
    let plain = PAGES.iter().map(|&(name, kind)| (format!("__{name}"), kind));
    let plain = plain.map(|(name, kind)| function(&name, Family::Map, kind, true));
    let with = |prefix: &'static str, names: &'static [(&'static str, HookKind)]| {
        names.iter().map(move |(name, kind)| (format!("{prefix}{name}"), *kind))
    };
    let prefixed = PREFIXES.iter().flat_map(|prefix| with(prefix, HEAP));
    let jemalloc = JEMALLOC_PREFIXES.iter().flat_map(|prefix| with(prefix, JEMALLOC));
    let extra = prefixed.chain(jemalloc).chain(with("", OTHERS));
    let extra = extra.map(|(name, kind)| function(&name, Family::Heap, kind, true));
    heap.chain(pages).chain(plain).chain(extra).collect()
}

fn function(name: &str, family: Family, kind: HookKind, is_extra: bool) -> Function {
    let takes = [HookKind::Free, HookKind::Realloc, HookKind::Unmap, HookKind::Remap];
    let prefixes = PREFIXES.iter().filter(|prefix| **prefix != SAME);
    let allocator = prefixes.copied().find(|prefix| is_extra && name.starts_with(prefix));
    Function {
        name: name.to_owned(),
        family,
        kind,
        frees: takes.contains(&kind),
        allocator: allocator.unwrap_or(""),
        is_extra,
    }
}
