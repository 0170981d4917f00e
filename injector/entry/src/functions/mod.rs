//! The allocation functions we know, by name. Everything else derives from this list.

use std::{collections::HashMap, sync::LazyLock};

use heapattach_abi::{form::Form, kind::HookKind};

use crate::Family;

mod known;

/// One function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// What it allocates.
    pub family: Family,
    /// What its hook has to do.
    pub kind: HookKind,
    /// Where its arguments are, if that is chosen by hook.
    pub form: Form,
    /// What asks for the same, in the same module, and answers null where this one throws.
    pub nothrow: Option<String>,
    /// It frees memory: missing a call would invent a leak.
    pub frees: bool,
    /// Whose function it is: the prefix of its name, empty for the usual one.
    pub allocator: &'static str,
    /// The user named it.
    pub is_asked: bool,
    /// One of C++'s operators: of interest only where an allocator defines them itself.
    pub is_operator: bool,
    /// No function of C libraries, but of some allocator: one that does nothing but call a function
    /// that is hooked is left alone.
    pub is_extra: bool,
}

/// A function of a list that lives as long as the command.
pub type FunctionRef = &'static Function;

static ALL: LazyLock<Vec<Function>> = LazyLock::new(known::functions);

static BY_NAME: LazyLock<HashMap<&'static [u8], FunctionRef>> =
    LazyLock::new(|| ALL.iter().map(|function| (function.name.as_bytes(), function)).collect());

/// All of them; the usual ones come first.
pub fn all() -> &'static [Function] {
    &ALL
}

/// Their names.
pub fn names() -> impl Iterator<Item = &'static [u8]> {
    ALL.iter().map(|function| function.name.as_bytes())
}

/// Which names may be among them, by length, first and last letter: a large program has a hundred
/// thousand others, and to hash one takes ten times as long.
static SIEVE: LazyLock<[u64; SIEVE_WORDS]> = LazyLock::new(|| {
    let mut sieve = [0; SIEVE_WORDS];
    for (word, bit) in ALL.iter().filter_map(|function| mesh(function.name.as_bytes())) {
        sieve[word] |= 1 << bit;
    }
    sieve
});
const SIEVE_WORDS: usize = 1 << 10;

/// Where a name falls in the sieve; an empty one nowhere.
fn mesh(name: &[u8]) -> Option<(usize, usize)> {
    let (&first, &last) = name.first().zip(name.last())?;
    let letters = usize::from(first & 31) << 5 | usize::from(last & 31);
    Some((letters & (SIEVE_WORDS - 1), name.len() & 63))
}

/// The function with this symbol.
pub fn by_name(name: &[u8]) -> Option<FunctionRef> {
    let (word, bit) = mesh(name)?;
    if SIEVE[word] >> bit & 1 == 0 {
        return None;
    }
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name_and_nothing_else_is() {
        for function in all() {
            assert_eq!(by_name(function.name.as_bytes()), Some(function));
        }
        assert_eq!(BY_NAME.len(), all().len(), "no name stands there twice");
        assert_eq!(by_name(b"reallocarray"), None);
        assert_eq!(by_name(b""), None);
    }

    #[test]
    fn what_throws_has_a_form_that_does_not() {
        for function in all() {
            assert_eq!(function.nothrow.is_some(), function.kind == HookKind::New);
            if let Some(nothrow) = &function.nothrow {
                let kind = by_name(nothrow.as_bytes()).map(|nothrow| nothrow.kind);
                assert_eq!(kind, Some(HookKind::Malloc), "{nothrow}");
            }
        }
    }

    #[test]
    fn what_exchanges_or_takes_blocks_frees() {
        let takes = [HookKind::Free, HookKind::Realloc, HookKind::Unmap, HookKind::Remap];
        for function in all() {
            let frees = takes.contains(&function.kind) || function.form.block != 0;
            assert_eq!(function.frees, frees, "{}", function.name);
        }
    }
}
