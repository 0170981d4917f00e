//! Where the map, the files and the threads of a moment are: those of a process, or of a core.

use std::fs::File;

use heapattach_injector::moment::Rules;
use heapattach_process::{
    core_file::CoreFile,
    memory::Memory,
    proc::{Process, maps::Mapping},
};
use heapattach_symbols::Symbols;

/// Either.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// A process, or a clone of it; threads and their names are those of the process that has this number.
    Process(&'a Process, i32),
    /// A process that has gone on since its moment; it had this map then.
    Passed(&'a Process, &'a [u8]),
    /// A core.
    Core(&'a CoreFile),
}

impl Source<'_> {
    /// The text of the memory map.
    pub(super) fn maps(&self) -> Vec<u8> {
        match self {
            Self::Process(process, _) => process.read("maps").unwrap_or_default(),
            Self::Passed(_, maps) => maps.to_vec(),
            Self::Core(core) => core.maps().to_vec(),
        }
    }

    /// Has symbols know the files that are mapped.
    pub(super) fn note(&self, symbols: &mut Symbols, maps: &[Mapping<'_>]) {
        match self {
            Self::Process(process, _) | Self::Passed(process, _) => symbols.note(process, maps),
            Self::Core(core) => {
                symbols.note_files(maps, &|at| core.module_at(at)?.try_clone().ok())
            }
        }
    }

    /// The name of a thread; a core has none.
    pub(super) fn thread_name(&self, tid: i32) -> Option<String> {
        let pid = match self {
            Self::Process(_, pid) => *pid,
            Self::Passed(process, _) => process.pid(),
            Self::Core(_) => return None,
        };
        let name = Process::open(pid).ok()?.read_thread(tid, "comm").ok()?;
        Some(String::from_utf8_lossy(&name).trim_end().to_owned())
    }

    /// The file of the program, which has code at this address.
    pub(super) fn program(&self, code: u64) -> Option<File> {
        match self {
            Self::Process(process, _) | Self::Passed(process, _) => process.open_program().ok(),
            Self::Core(core) => core.module_at(code)?.try_clone().ok(),
        }
    }

    /// How frames are found; of a core that is not told.
    pub(super) fn rules(&self, maps: &[Mapping<'_>]) -> Option<Rules> {
        let (Self::Process(process, _) | Self::Passed(process, _)) = self else { return None };
        let memory = Memory::open(process).ok()?;
        Some(Rules::of(process, &memory, maps))
    }
}
