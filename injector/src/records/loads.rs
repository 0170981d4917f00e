//! How it is known that the target's loader has loaded something: a word of the loader's own that is
//! another one then, and that the payload can look at for next to nothing.
//!
//! glibc counts what it loads. No offset of any version need be known: the count lies behind the
//! number of namespaces and some recursive locks, and nothing else in there looks like that. musl, which
//! never unloads, has the last entry of its list, that leads to another one then.

use std::collections::HashSet;

use heapattach_abi::{control, region};
use nix::errno::Errno;

use crate::trace::target::Target;
use crate::{home::Home, module::find_symbol};
use heapattach_process::{
    addr::RemoteAddr,
    linker::{Link, Rendezvous},
    little_endian::u64_at,
    memory::Memory,
    shared::Shared,
    told_loader,
};

/// Where glibc's loader keeps what it knows.
const GLOBAL: &[u8] = b"_rtld_global";
/// It is no longer.
const GLOBAL_BYTES: usize = 16 << 10;
/// Namespaces at most, words of a lock, locks in a row.
const NAMESPACES: u64 = 16;
const LOCK_WORDS: usize = 5;
const LOCKS: std::ops::RangeInclusive<usize> = 2..=3;
/// `PTHREAD_MUTEX_RECURSIVE_NP`.
const RECURSIVE: u64 = 1;
/// No process has loaded more.
const LOADED: u64 = 1 << 32;

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Loads {
    word: RemoteAddr,
    lists: Rendezvous,
    /// It is the end of a list that goes on with what is loaded next.
    is_end: bool,
}

impl Loads {
    /// Finds it; `None` if nothing is ever loaded, or the loader is one that we do not know.
    pub(crate) fn find(target: &Target, lists: Option<Rendezvous>, links: &[Link]) -> Option<Self> {
        let (memory, lists) = (&target.memory, lists?);
        let loader = loader(target, links)?;
        let global = find_symbol(memory, loader, GLOBAL).ok().flatten();
        let (word, is_end) = match global {
            Some(at) => (at.offset(count_in(memory, at, links.len() as u64)?), false),
            None if names_musl(&loader.name) => (lists.end(memory)?, true),
            None => return None,
        };
        Some(Self { word, lists, is_end })
    }

    /// What it says now: to be asked before the memory map is.
    pub fn now(&mut self, memory: &Memory) -> Option<u64> {
        if self.is_end {
            self.word = self.lists.end(memory)?;
            return Some(0);
        }
        memory.word(self.word).ok()
    }

    /// Tells the payload that the tables it has are those of that moment.
    pub(crate) fn tell(
        &self,
        seen: u64,
        shared: &Shared,
        memory: &Memory,
        control: RemoteAddr,
    ) -> Result<(), Errno> {
        shared.store(memory, region::LOADS_SEEN, seen)?;
        memory.write_word(control.offset(control::LOADS as u64), self.word.get())
    }

    /// Tells it where the lists are, and whether it may look there.
    pub(crate) fn prepare(&self, target: &Target, home: &Home) -> Result<(), Errno> {
        let lists = home.control().offset(control::LISTS as u64);
        target.memory.write_word(lists, self.lists.address().get())?;
        Self::allow(target, home)
    }

    /// It may look there, by a system call, unless these are filtered.
    pub(crate) fn allow(target: &Target, home: &Home) -> Result<(), Errno> {
        let own = target.process.status().map_or(0, |status| status.own_tgid);
        let look = if target.is_confined() { 0 } else { own.unsigned_abs() };
        let place = home.control().offset(control::LOOK as u64);
        target.memory.write(place, &look.to_le_bytes())
    }

    /// From now on it may make no system call.
    pub(crate) fn forbid(target: &Target, home: &Home) -> Result<(), Errno> {
        target.memory.write(home.control().offset(control::LOOK as u64), &[0; 4])
    }
}

/// The biases of modules that stay for as long as the process: those that it began with, which the
/// loader lists up to itself. `None` if all do.
pub(crate) fn lasting(target: &Target, links: &[Link]) -> Option<HashSet<u64>> {
    let loader = loader(target, links)?;
    let own = links.iter().filter(|link| link.namespace == 0);
    let until = own.clone().position(|link| link == loader)?;
    Some(own.take(until + 1).map(|link| link.base).collect())
}

fn loader<'a>(target: &Target, links: &'a [Link]) -> Option<&'a Link> {
    let base = told_loader::auxv(&target.process).ok()?.interpreter?;
    links.iter().find(|link| link.namespace == 0 && link.base == base.get())
}

fn names_musl(path: &[u8]) -> bool {
    path.windows(4).any(|part| part == b"musl")
}

/// Offset of the count, in what is at `at`, of at least so many modules.
fn count_in(memory: &Memory, at: RemoteAddr, modules: u64) -> Option<u64> {
    let mut bytes = vec![0; GLOBAL_BYTES];
    let read = memory.read_some(at, &mut bytes).ok()?;
    let word = |number: usize| u64_at(&bytes[..read], number * 8);
    // Whether it is held, by whom and how often, may be just now; its kind stays.
    let is_lock = |at: usize| {
        word(at + 2).is_some_and(|kind| kind & 0xffff_ffff == RECURSIVE)
            && [3, 4].iter().all(|link| word(at + link) == Some(0))
    };
    let count = |at: usize| word(at).filter(|count| (modules..LOADED).contains(count));
    let found = (0..read / 8).find_map(|at| {
        let is_number = word(at).is_some_and(|number| (1..=NAMESPACES).contains(&number));
        let locks =
            (0..*LOCKS.end()).take_while(|lock| is_lock(at + 1 + lock * LOCK_WORDS)).count();
        let behind = at + 1 + locks * LOCK_WORDS;
        (is_number && LOCKS.contains(&locks) && count(behind).is_some()).then_some(behind)
    });
    found.map(|number| number as u64 * 8)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;
    use heapattach_process::proc::Process;

    fn memory_of(words: &[u64]) -> Memory {
        let mut file = std::fs::File::from(memfd_create(c"words", MFdFlags::empty()).unwrap());
        words.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
        Memory::of(file)
    }

    /// A number of namespaces, so many locks, and a count behind them.
    fn global(locks: usize, count: u64) -> Vec<u64> {
        let lock = [[0, 0, RECURSIVE, 0, 0], [1 << 32 | 1, 1, RECURSIVE, 0, 0]];
        let locks = (0..locks).flat_map(|number| lock[number % 2]);
        // What lies before is of namespaces: modules, a list, a lock of each.
        let before = [0x7f00_0000_1000, 4, 0, 0, RECURSIVE, 0, 0, 9, 9];
        before.into_iter().chain([1]).chain(locks).chain([count, 0, 0]).collect()
    }

    #[test]
    fn the_count_lies_behind_the_locks() {
        for locks in [2, 3] {
            let at = count_in(&memory_of(&global(locks, 7)), RemoteAddr::new(0), 5);
            assert_eq!(at, Some((10 + 5 * locks as u64) * 8), "{locks} locks");
        }
        for (locks, count) in [(1, 7), (2, 4), (3, LOADED)] {
            let memory = memory_of(&global(locks, count));
            assert_eq!(count_in(&memory, RemoteAddr::new(0), 5), None, "{locks} locks, {count}");
        }
    }

    /// Of the C library that these tests run with.
    #[test]
    fn the_count_of_this_very_process_is_found() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let base = process.auxv().unwrap().interpreter.expect("a dynamic program");
        let loader = heapattach_process::linker::interpreter(&memory, base).unwrap();
        let Some(at) = find_symbol(&memory, &loader, GLOBAL).unwrap() else {
            panic!("no {} here: is this glibc?", String::from_utf8_lossy(GLOBAL))
        };
        let word = at.offset(count_in(&memory, at, 3).expect("a count"));
        let before = memory.word(word).unwrap();
        assert!((3..1000).contains(&before), "{before} modules");
    }
}
