//! The allocation functions we know, by name. Everything else derives from this list.

use heapattach_abi::kind::HookKind;

use crate::entry::Family;

/// An index into [`FUNCTIONS`].
pub type FunctionId = usize;

/// One function.
#[derive(Debug)]
pub struct Function {
    /// Its symbol.
    pub name: &'static str,
    /// What it hands out.
    pub family: Family,
    /// What its hook has to do.
    pub kind: HookKind,
    /// It gives memory back: missing a call would invent a leak.
    pub frees: bool,
}

const fn heap(name: &'static str, kind: HookKind, frees: bool) -> Function {
    Function { name, family: Family::Heap, kind, frees }
}

const fn map(name: &'static str, kind: HookKind, frees: bool) -> Function {
    Function { name, family: Family::Map, kind, frees }
}

/// `reallocarray` is missing on purpose: it calls realloc through its slot.
pub const FUNCTIONS: &[Function] = &[
    heap("malloc", HookKind::Malloc, false),
    heap("calloc", HookKind::Calloc, false),
    heap("realloc", HookKind::Realloc, true),
    heap("free", HookKind::Free, true),
    heap("cfree", HookKind::Free, true),
    heap("posix_memalign", HookKind::PosixMemalign, false),
    heap("aligned_alloc", HookKind::Memalign, false),
    heap("memalign", HookKind::Memalign, false),
    heap("valloc", HookKind::Malloc, false),
    heap("pvalloc", HookKind::Malloc, false),
    heap("free_sized", HookKind::Free, true),
    heap("free_aligned_sized", HookKind::Free, true),
    map("mmap", HookKind::Map, false),
    map("mmap64", HookKind::Map, false),
    map("munmap", HookKind::Unmap, true),
    map("mremap", HookKind::Remap, true),
];

/// The function with this symbol.
pub fn by_name(name: &[u8]) -> Option<FunctionId> {
    // Nearly all symbols fail at the first test: this is asked for every symbol of the target.
    if !matches!(name.first(), Some(b'm' | b'c' | b'r' | b'f' | b'p' | b'a' | b'v')) {
        return None;
    }
    FUNCTIONS.iter().position(|function| function.name.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name_and_nothing_else_is() {
        for (id, function) in FUNCTIONS.iter().enumerate() {
            assert_eq!(by_name(function.name.as_bytes()), Some(id));
        }
        assert_eq!(by_name(b"reallocarray"), None);
        assert_eq!(by_name(b""), None);
    }
}
