//! Analyses of modules that were made for other processes of this session: the processes of a suite have most of their
//! modules in common. Whether the memory is as its file is compared for each process.

use std::sync::{Arc, Mutex, PoisonError};

use heapattach_entry::{Analysis, Family, Hooked, ImageError, Role};
use heapattach_process::addr::ImageAddr;

use crate::module::build::Build;

/// More are not kept: the first goes.
const MOST: usize = 64;

static KNOWN: Mutex<Vec<(Key, Arc<Analysis>)>> = Mutex::new(Vec::new());

/// What was asked: of which build, as what, and about which functions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    build: Build,
    role: Role,
    hooked: Vec<(String, ImageAddr, u64, Family, bool)>,
}

/// The analysis of a module whose file is read if it was not analysed before. A module that does not say which build it
/// is is analysed each time.
///
/// # Errors
/// As [`heapattach_entry::analyse`], and that of `read`.
pub(super) fn analysed<'f>(
    build: Option<&Build>,
    role: Role,
    hooked: &[Hooked<'_>],
    read: impl FnOnce() -> Result<&'f [u8], String>,
) -> Result<Arc<Analysis>, String> {
    let key = build.map(|build| Key { build: build.clone(), role, hooked: owned(hooked) });
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = key.as_ref().and_then(|key| {
        known().iter().find(|(other, _)| other == key).map(|(_, analysis)| Arc::clone(analysis))
    });
    if let Some(found) = found {
        return Ok(found);
    }
    let told = |error: ImageError| error.to_string();
    let analysis = Arc::new(heapattach_entry::analyse(read()?, hooked, role).map_err(told)?);
    if let Some(key) = key {
        let mut known = known();
        if known.len() == MOST {
            known.remove(0);
        }
        known.push((key, Arc::clone(&analysis)));
    }
    Ok(analysis)
}

fn owned(hooked: &[Hooked<'_>]) -> Vec<(String, ImageAddr, u64, Family, bool)> {
    let one = |one: &Hooked<'_>| {
        (one.name.to_owned(), one.address, one.size, one.family, one.keeps_flags)
    };
    hooked.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use heapattach_process::{
        memory::Memory,
        proc::{Process, maps},
    };

    use super::*;

    #[test]
    fn the_same_question_about_the_same_build_is_answered_without_its_file() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let own = std::env::current_exe().unwrap();
        let map = maps.iter().find(|map| map.file() == Some(&own)).unwrap();
        let build = Build::of((&process, &memory), &maps, map).expect("linkers give build ids");
        let (file, reads) = (std::fs::read(&own).unwrap(), Cell::new(0));
        let ask = |build: Option<&Build>, role, address, keeps_flags| {
            let (name, size, family) = ("f", 16, Family::Heap);
            let address = ImageAddr::new(address);
            let hooked = [Hooked { name, address, size, family, keeps_flags }];
            let read = || {
                reads.set(reads.get() + 1);
                Ok(&file[..])
            };
            analysed(build, role, &hooked, read).unwrap()
        };
        let first = ask(Some(&build), Role::Library, 0x1000, false);
        assert_eq!(*ask(Some(&build), Role::Library, 0x1000, false), *first);
        assert_eq!(reads.get(), 1);
        ask(Some(&build), Role::Executable, 0x1000, false);
        ask(Some(&build), Role::Library, 0x1010, false);
        ask(Some(&build), Role::Library, 0x1000, true);
        assert_eq!(reads.get(), 4, "each of them is another question");
        ask(None, Role::Library, 0x1000, false);
        assert_eq!(reads.get(), 5, "it is not known which build it is");
        let failed = analysed(None, Role::Library, &[], || Err("gone".to_owned()));
        assert_eq!(failed.unwrap_err(), "gone");
    }
}
