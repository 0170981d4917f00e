//! Which build of a module it is, and from which file: what was found in one process is so in all others that have it.

use std::os::unix::fs::MetadataExt;

use heapattach_process::{
    memory::Memory,
    proc::{Process, build_id::BuildId, file, maps::Mapping},
};

/// A module begins no more mappings before one of its own; a target may have tens of thousands of them.
const NEAR: usize = 64;

/// The build, as the module's memory says it, and the file, as the kernel does: a file that was written over in place
/// is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Build {
    id: BuildId,
    device: u64,
    inode: u64,
    length: u64,
    /// When it was changed last, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Build {
    /// Of the module that one of its mappings belongs to; none if it does not say which build it is.
    pub(crate) fn of(
        (process, memory): (&Process, &Memory),
        maps: &[Mapping<'_>],
        mapping: &Mapping<'_>,
    ) -> Option<Self> {
        let is_first = |other: &&Mapping<'_>| {
            (other.device, other.inode, other.file_offset) == (mapping.device, mapping.inode, 0)
        };
        let behind = maps.partition_point(|other| other.range.start <= mapping.range.start);
        let near = maps[..behind].iter().rev().take(NEAR);
        let first = near.filter(|_| mapping.inode != 0).find(is_first)?;
        let size = first.range.end.offset_from(first.range.start)?;
        let id = BuildId::at(memory.file(), first.range.start.get(), size)?;
        let found = file::open_module(process, mapping).ok()?.metadata().ok()?;
        Some(Self {
            id,
            device: found.dev(),
            inode: found.ino(),
            length: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use heapattach_process::proc::{Process, maps};

    use super::*;

    #[test]
    fn a_build_is_the_same_wherever_in_its_module_it_is_asked_for_and_of_another_file_another() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let text = process.read("maps").unwrap();
        let mut maps = maps::parse(&text).unwrap();
        let own = std::env::current_exe().unwrap();
        let all: Vec<_> = maps.iter().filter(|map| map.file() == Some(&own)).collect();
        let builds: Vec<_> =
            all.iter().map(|map| Build::of((&process, &memory), &maps, map)).collect();
        assert!(builds.len() > 1 && builds.iter().all(|build| *build == builds[0]));
        let build = builds[0].clone().expect("linkers give build ids");
        let other = maps.iter().find(|map| map.file().is_some_and(|file| *file != own)).unwrap();
        assert_ne!(Build::of((&process, &memory), &maps, other), Some(build.clone()));
        // Its file has no beginning in memory.
        let code = maps.iter().position(|map| map.executable && map.file() == Some(&own)).unwrap();
        maps[code].inode += 1;
        assert_eq!(Build::of((&process, &memory), &maps, &maps[code]), None);
        let other = Build { inode: build.inode + 1, ..build.clone() };
        assert_ne!(other, build);
    }
}
