//! Modules without valgrind's client requests, as far as this session looked: the processes of a suite have most
//! of their modules in common.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::build::Build;

/// More are not kept.
const MOST: usize = 1 << 16;

static KNOWN: Mutex<Option<HashSet<(Build, Part)>>> = Mutex::new(None);

/// Which part of a module was looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The code of its file.
    File,
    /// What is mapped from there on, so many bytes.
    Mapped(u64, u64),
}

/// Whether it is known that there are none.
pub(crate) fn has_none(build: &Build, part: Part) -> bool {
    known().as_ref().is_some_and(|known| known.contains(&(build.clone(), part)))
}

/// It was looked through, and there are none.
pub(crate) fn note(build: Build, part: Part) {
    let mut known = known();
    let known = known.get_or_insert_default();
    if known.len() < MOST {
        known.insert((build, part));
    }
}

fn known() -> MutexGuard<'static, Option<HashSet<(Build, Part)>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use heapattach_process::{
        memory::Memory,
        proc::{Process, maps},
    };

    use super::*;

    #[test]
    fn what_was_looked_through_is_known_by_its_build_and_part() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let own = std::env::current_exe().unwrap();
        let of = |is_own: bool| {
            let mut all = maps.iter().filter(|map| map.file().is_some());
            let map = all.find(|map| (map.file() == Some(&own)) == is_own).unwrap();
            Build::of((&process, &memory), &maps, map).expect("linkers give build ids")
        };
        assert!(!has_none(&of(true), Part::File));
        note(of(true), Part::File);
        assert!(has_none(&of(true), Part::File));
        assert!(!has_none(&of(true), Part::Mapped(0, 4096)), "another part");
        assert!(!has_none(&of(false), Part::File), "another build");
    }
}
