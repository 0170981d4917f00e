//! The list itself: what C libraries have, and what the allocators that are linked into programs
//! call their functions.

use heapattach_abi::{
    form::{Asks, Form},
    kind::HookKind,
};

use super::Function;
use crate::Family;

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

/// What else changes how much memory the kernel keeps for a process, or whether it can be read. `posix_madvise` frees
/// nothing; `shmat` does not say how much it maps.
const KERNEL: &[(&str, Asks)] = &[
    ("brk", Asks::Break),
    ("sbrk", Asks::MoreBreak),
    ("madvise", Asks::Advice),
    ("mprotect", Asks::Rights),
];

/// What allocators put before those names to have them beside the C library's: glibc and musl
/// themselves, jemalloc, its Rust crate, tcmalloc, mimalloc, snmalloc, rpmalloc, tbb, dlmalloc.
const PREFIXES: &[&str] =
    &["__libc_", "je_", "_rjem_", "tc_", "mi_", "sn_", "rp", "scalable_", "dl"];

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

/// What others have besides. `xallocx` and `mi_expand` are missing: a block stays where it is. So are
/// those of mimalloc that are made of others: they are seen as what they call, and hooks are few.
const OTHERS: &[(&str, HookKind)] = &[
    ("tc_malloc_skip_new_handler", HookKind::Malloc),
    ("mi_zalloc", HookKind::Malloc),
    ("mi_malloc_small", HookKind::Malloc),
    ("mi_zalloc_small", HookKind::Malloc),
    ("mi_malloc_aligned", HookKind::Malloc),
    ("mi_zalloc_aligned", HookKind::Malloc),
    ("mi_realloc_aligned", HookKind::Realloc),
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

/// C++'s operators that allocate blocks: those that throw, and what is put behind a name for the one
/// that does not.
const NEW: &[&str] = &["_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"];
const NOTHROW: &str = "RKSt9nothrow_t";

/// Those that take them back.
const DELETE: &[&str] = &[
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
];

/// The same under the names of tcmalloc and mimalloc.
const OWN_NEW: &[(&str, &str)] = &[
    ("tc_new", "tc_new_nothrow"),
    ("tc_newarray", "tc_newarray_nothrow"),
    ("tc_new_aligned", "tc_new_aligned_nothrow"),
    ("tc_newarray_aligned", "tc_newarray_aligned_nothrow"),
    ("mi_new", "mi_new_nothrow"),
    ("mi_new_aligned", "mi_new_aligned_nothrow"),
];
const OWN_DELETE: &[&str] = &[
    "tc_delete",
    "tc_deletearray",
    "tc_delete_sized",
    "tc_deletearray_sized",
    "tc_delete_nothrow",
    "tc_deletearray_nothrow",
    "tc_delete_aligned",
    "tc_deletearray_aligned",
    "tc_delete_sized_aligned",
    "tc_deletearray_sized_aligned",
    "tc_delete_aligned_nothrow",
    "tc_deletearray_aligned_nothrow",
];

/// Functions with arguments in another order: which is the block, the size, and its factor.
const CHOSEN: &[(&str, Form)] = &[
    ("mi_heap_realloc", form(2, 3, 0)),
    ("mi_heap_realloc_aligned", form(2, 3, 0)),
    ("mi_heap_calloc", form(0, 2, 3)),
    ("sn_rust_realloc", form(1, 4, 0)),
    ("rpaligned_realloc", form(1, 3, 0)),
];

const fn form(block: u8, size: u8, times: u8) -> Form {
    Form { block, size, times, asks: Asks::Nothing }
}

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
    let nothrow = NEW.iter().map(|name| format!("{name}{NOTHROW}"));
    let nothrow = nothrow.chain(OWN_NEW.iter().map(|(_, nothrow)| (*nothrow).to_owned()));
    let nothrow = nothrow.map(|name| (name, HookKind::Malloc));
    let delete = DELETE.iter().chain(OWN_DELETE).map(|name| ((*name).to_owned(), HookKind::Free));
    let extra = prefixed.chain(jemalloc).chain(with("", OTHERS)).chain(nothrow).chain(delete);
    let extra = extra.map(|(name, kind)| function(&name, Family::Heap, kind, true));
    let new = NEW.iter().map(|name| ((*name).to_owned(), format!("{name}{NOTHROW}")));
    let own = OWN_NEW.iter().map(|(name, nothrow)| ((*name).to_owned(), (*nothrow).to_owned()));
    let new = new.chain(own).map(|(name, nothrow)| Function {
        nothrow: Some(nothrow),
        ..function(&name, Family::Heap, HookKind::New, true)
    });
    let chosen = CHOSEN.iter().map(|&(name, form)| Function {
        form,
        frees: form.block != 0,
        ..function(name, Family::Heap, HookKind::Chosen, true)
    });
    let kernel = KERNEL.iter().flat_map(|&(name, asks)| {
        let form = Form { asks, ..Form::default() };
        let kernel = |name: &str, is_extra| Function {
            form,
            ..function(name, Family::Kernel, HookKind::Chosen, is_extra)
        };
        [kernel(name, false), kernel(&format!("__{name}"), true)]
    });
    let all = heap.chain(pages).chain(plain).chain(extra).chain(new).chain(chosen);
    all.chain(kernel).collect()
}

fn function(name: &str, family: Family, kind: HookKind, is_extra: bool) -> Function {
    let takes = [HookKind::Free, HookKind::Realloc, HookKind::Unmap, HookKind::Remap];
    let prefixes = PREFIXES.iter().filter(|prefix| **prefix != SAME);
    let allocator = prefixes.copied().find(|prefix| is_extra && name.starts_with(prefix));
    Function {
        name: name.to_owned(),
        family,
        kind,
        form: Form::default(),
        nothrow: None,
        frees: takes.contains(&kind),
        allocator: allocator.unwrap_or(""),
        is_asked: false,
        is_operator: name.starts_with("_Z"),
        is_extra,
    }
}
