//! Everything about a process that an attach and detach must leave as it was.
//!
//! Taken by reading `/proc` and the ELF files alone, in code that shares nothing with the command
//! under test: were both to have the same wrong idea of a relocation, neither would see it.
//!
//! A fingerprint is exact only of a process that does nothing meanwhile; fixtures are paused for
//! it. Of a program that cannot be paused a [`Scope::Loose`] comparison is possible, which lets
//! private writable memory come and go.

mod diff;
mod files;
mod image;
mod maps;
mod memory;
mod process;
mod slots;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

pub use diff::{Scope, diff, diff_within};
pub use files::Descriptor;
pub use image::Kind;
pub use maps::Mapping;
pub use process::{Fields, Thread};
pub use slots::Slot;

/// The first bytes of the one page a detach may leave behind.
pub const STUB_MAGIC: &[u8] = b"HEAPATTACHSTUB01";

/// The state of a process at one moment.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    /// By start address.
    pub maps: BTreeMap<u64, Mapping>,
    /// Content of what should not be written: executable mappings and read-only ones of files.
    pub bytes: BTreeMap<u64, Vec<u8>>,
    /// Every word a relocation with a symbol filled, by address.
    pub slots: BTreeMap<u64, Slot>,
    /// Open files, by descriptor.
    pub files: BTreeMap<i32, Descriptor>,
    /// By thread id.
    pub threads: BTreeMap<i32, Thread>,
    /// Of the process as a whole: signal handlers, pending signals, identity, filters.
    pub process: Fields,
    modules: Vec<slots::Module>,
}

impl Fingerprint {
    /// Takes the fingerprint of a process.
    ///
    /// # Errors
    /// If it is gone or we may not read it.
    pub fn of(pid: i32) -> io::Result<Self> {
        let task = live_task(pid)?;
        let maps = maps::read(&task)?;
        let memory = memory::Memory::open(&task)?;
        let kept = maps.values().filter(|m| m.is_immutable());
        let bytes = kept.map(|m| (m.start, memory.contents(m))).collect();
        let modules = slots::modules(&task, &maps);
        let slots = slots::read(&memory, &modules);
        let files = files::read(&task)?;
        let threads = process::threads(pid)?;
        let process = process::fields(&task)?;
        Ok(Self { maps, bytes, slots, files, threads, process, modules })
    }

    /// Where the module whose path ends in `module` has `symbol` in memory.
    pub fn address_of(&self, module: &str, symbol: &str) -> Option<u64> {
        let module = self.modules.iter().find(|m| m.path.ends_with(module))?;
        let definition = module.image.definitions.get(symbol)?.first()?;
        Some(definition.address.wrapping_add(module.bias))
    }

    /// The mapping that holds `address`.
    pub fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.maps.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// The byte at `address`, if it is one that should not be written.
    pub fn byte_at(&self, address: u64) -> Option<u8> {
        let mapping = self.mapping_at(address)?;
        let offset = usize::try_from(address - mapping.start).ok()?;
        self.bytes.get(&mapping.start)?.get(offset).copied()
    }
}

/// A thread through which the process can be read: the leader may have ended before the others,
/// and then shows neither memory nor files.
fn live_task(pid: i32) -> io::Result<PathBuf> {
    let mut live = None;
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = entry?.path();
        let is_leader = task.file_name().is_some_and(|name| *name == *pid.to_string());
        if has_memory(&task) && (live.is_none() || is_leader) {
            live = Some(task);
        }
    }
    live.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no living thread"))
}

fn has_memory(task: &Path) -> bool {
    fs::read(task.join("maps")).is_ok_and(|maps| !maps.is_empty())
}
