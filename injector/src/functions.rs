//! The allocation functions we know, by name. Everything else derives from this list.

use heapattach_abi::kind::ArgKind;

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
    /// How its hook learns the bytes asked for.
    pub bytes: ArgKind,
    /// It gives memory back: missing a call would invent a leak.
    pub frees: bool,
}

const fn heap(name: &'static str, bytes: ArgKind, frees: bool) -> Function {
    Function { name, family: Family::Heap, bytes, frees }
}

const fn map(name: &'static str, bytes: ArgKind, frees: bool) -> Function {
    Function { name, family: Family::Map, bytes, frees }
}

/// `reallocarray` is missing on purpose: it calls realloc through its slot.
pub const FUNCTIONS: &[Function] = &[
    heap("malloc", ArgKind::Arg0, false),
    heap("calloc", ArgKind::Product, false),
    heap("realloc", ArgKind::Arg1, true),
    heap("free", ArgKind::None, true),
    heap("cfree", ArgKind::None, true),
    heap("posix_memalign", ArgKind::Arg2, false),
    heap("aligned_alloc", ArgKind::Arg1, false),
    heap("memalign", ArgKind::Arg1, false),
    heap("valloc", ArgKind::Arg0, false),
    heap("pvalloc", ArgKind::Arg0, false),
    heap("free_sized", ArgKind::None, true),
    heap("free_aligned_sized", ArgKind::None, true),
    map("mmap", ArgKind::Arg1, false),
    map("mmap64", ArgKind::Arg1, false),
    map("munmap", ArgKind::Arg1, true),
    map("mremap", ArgKind::Arg2, true),
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
