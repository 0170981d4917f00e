//! Functions that tell how large a block is: of allocators that do not write it before the block, so
//! that blocks older than the attach can be counted by size when they go.
//!
//! Called in the target, on the thread that has just got the block or is about to free it
//! (`payload/src/flow.rs`): so only functions that take no lock, of allocators whose own functions got
//! the call. A pointer that is not their block would make them crash, but it goes to their own `free`
//! at once, which would crash as well; but for tcmalloc's emergency blocks, of which it is asked first.

use crate::module::Module;
use heapattach_entry::{Family, functions::FunctionRef};
use heapattach_process::addr::RemoteAddr;

/// What is asked about blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizer {
    /// How large one is.
    pub sizer: RemoteAddr,
    /// Whether it is the allocator's at all, if that is not certain.
    pub owner: Option<RemoteAddr>,
}

/// An allocator under one of its names.
struct Known {
    prefix: &'static str,
    sizer: &'static str,
    owner: Option<&'static str>,
    /// What it has besides: who has only the first is another one.
    mark: &'static str,
}

const KNOWN: [Known; 5] = [
    jemalloc("", "malloc_usable_size", "mallocx"),
    jemalloc("je_", "je_malloc_usable_size", "je_mallocx"),
    jemalloc("_rjem_", "_rjem_malloc_usable_size", "_rjem_mallocx"),
    Known {
        prefix: "tc_",
        sizer: "tc_malloc_size",
        owner: Some("MallocExtension_GetOwnership"),
        mark: "tc_malloc",
    },
    Known { prefix: "mi_", sizer: "mi_usable_size", owner: None, mark: "mi_malloc" },
];

const fn jemalloc(prefix: &'static str, sizer: &'static str, mark: &'static str) -> Known {
    Known { prefix, sizer, owner: None, mark }
}

/// The name that is kept of a symbol, if it is one of these functions.
pub fn known(name: &[u8]) -> Option<&'static str> {
    texts().find(|known| known.as_bytes() == name)
}

/// All their names.
pub fn names() -> impl Iterator<Item = &'static [u8]> {
    texts().map(str::as_bytes)
}

fn texts() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().flat_map(|known| std::iter::once(known.sizer).chain(known.owner))
}

/// What is to be asked about blocks of a function with these names in this module.
pub fn of(module: &Module, names: &[FunctionRef]) -> Option<Sizer> {
    if names.iter().any(|name| name.is_asked || name.family != Family::Heap) {
        return None;
    }
    let is_its = |known: &&Known| {
        let by_name = names.iter().any(|name| name.allocator == known.prefix);
        by_name || names.iter().any(|name| name.allocator.is_empty()) && is_the_usual(module, known)
    };
    let known = KNOWN.iter().filter(is_its).find(|known| defines(module, known.mark).is_some())?;
    let owner = match known.owner {
        Some(owner) => Some(sized(module, owner)?),
        None => None,
    };
    Some(Sizer { sizer: sized(module, known.sizer)?, owner })
}

/// Whether the program's `malloc` is this allocator's.
fn is_the_usual(module: &Module, known: &Known) -> bool {
    let own = defines(module, &format!("{}malloc", known.prefix));
    own.is_some() && own == defines(module, "malloc")
}

fn defines(module: &Module, name: &str) -> Option<RemoteAddr> {
    let found = module.definitions.iter().find(|one| one.function.name == name && !one.indirect);
    found.map(|one| one.at)
}

fn sized(module: &Module, name: &str) -> Option<RemoteAddr> {
    module.sizers.iter().find(|(own, _)| *own == name).map(|(_, at)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Definition;
    use heapattach_entry::functions;

    /// A module with these functions, one behind the other; those with `=` are where the last one is.
    fn module(names: &[&'static str]) -> Module {
        let (mut module, mut at) = (Module::default(), 0x1000);
        for name in names {
            at += if name.starts_with('=') { 0 } else { 16 };
            let (name, at) = (name.trim_start_matches('='), RemoteAddr::new(at));
            module.sizers.extend(known(name.as_bytes()).map(|name| (name, at)));
            if let Some(function) = functions::by_name(name.as_bytes()) {
                let (indirect, size, is_dynamic) = (false, 16, true);
                module.definitions.push(Definition { function, at, indirect, size, is_dynamic });
            }
        }
        module
    }

    fn of_name(module: &Module, name: &str) -> Option<Sizer> {
        of(module, &[functions::by_name(name.as_bytes()).unwrap()])
    }

    #[test]
    fn each_allocator_is_asked_by_its_own_function() {
        let jemalloc = module(&["malloc", "free", "mallocx", "malloc_usable_size", "_ZdlPv"]);
        for name in ["malloc", "free", "mallocx", "_ZdlPv"] {
            assert_eq!(of_name(&jemalloc, name).unwrap().sizer.get(), 0x1040, "{name}");
        }
        let tcmalloc = ["malloc", "=tc_malloc", "MallocExtension_GetOwnership", "tc_malloc_size"];
        let found = of_name(&module(&tcmalloc), "free").unwrap();
        assert_eq!((found.owner.unwrap().get(), found.sizer.get()), (0x1020, 0x1030));
        let mimalloc = module(&["mi_malloc", "=malloc", "malloc_usable_size", "mi_usable_size"]);
        assert_eq!(of_name(&mimalloc, "_Znwm").unwrap().sizer.get(), 0x1030);
    }

    #[test]
    fn one_that_is_not_certain_is_not_asked() {
        // A wrapper, whatever it answers.
        assert_eq!(of_name(&module(&["malloc", "malloc_usable_size"]), "malloc"), None);
        // Two in one program: the usual names are those of another.
        let both = module(&["malloc", "_rjem_malloc", "_rjem_mallocx", "_rjem_malloc_usable_size"]);
        assert_eq!(of_name(&both, "malloc"), None);
        assert!(of_name(&both, "_rjem_malloc").is_some());
        // Nothing tells its own blocks.
        assert_eq!(of_name(&module(&["tc_malloc", "tc_malloc_size"]), "tc_malloc"), None);
        let pages = module(&["malloc", "mallocx", "malloc_usable_size", "mmap"]);
        assert_eq!(of_name(&pages, "mmap"), None);
    }
}
