//! The memory map, as a census needs it: owned, and with the kinds of memory told apart.

use std::ops::Range;

use heapattach_process::proc::maps::Mapping;

/// What lies behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Memory alone.
    Anonymous,
    /// Memory that brk(2) gave.
    Break,
    /// The stack of the first thread.
    Stack,
    /// The kernel's own: vdso, vvar.
    Kernel,
    /// A file.
    File,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where.
    pub range: Range<u64>,
    /// What lies behind it.
    pub kind: RegionKind,
    /// Whether the target may read here.
    pub readable: bool,
    /// Whether the target may write here.
    pub writable: bool,
    /// Whether the target may jump here.
    pub executable: bool,
    /// Whether others see what is written.
    pub shared: bool,
    /// Where in the file it begins.
    pub file_offset: u64,
    /// The path, or what the kernel calls it.
    pub label: String,
}

impl Region {
    /// Private memory that allocators take blocks from: anonymous, or in huge pages.
    pub fn is_private_memory(&self) -> bool {
        let kind = matches!(self.kind, RegionKind::Anonymous | RegionKind::Break);
        kind && self.readable && self.writable && !self.shared
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// All of a map; empty and impossible ones are left out.
pub fn regions(maps: &[Mapping<'_>]) -> Vec<Region> {
    maps.iter().map(region).filter(|region| region.range.start < region.range.end).collect()
}

fn region(mapping: &Mapping<'_>) -> Region {
    let label = mapping.label().to_string_lossy().into_owned();
    let kind = match label.as_str() {
        "[heap]" => RegionKind::Break,
        "[stack]" => RegionKind::Stack,
        _ if mapping.is_huge() || mapping.is_anonymous() => RegionKind::Anonymous,
        _ if mapping.inode == 0 => RegionKind::Kernel,
        _ => RegionKind::File,
    };
    Region {
        range: mapping.range.start.get()..mapping.range.end.get(),
        kind,
        readable: mapping.readable,
        writable: mapping.writable,
        executable: mapping.executable,
        shared: mapping.shared,
        file_offset: mapping.file_offset,
        label,
    }
}

#[cfg(test)]
mod tests {
    use heapattach_process::proc::maps::parse;

    use super::*;

    #[test]
    fn kinds_of_memory_are_told_apart() {
        let text = b"1000-2000 rw-p 0 0:1 1 /exe\n\
            2000-3000 rw-p 0 0:0 0 [heap]\n\
            3000-4000 rw-p 0 0:0 0 \n\
            4000-5000 rw-p 0 0:e 55 /anon_hugepage (deleted)\n\
            5000-6000 rw-s 0 0:0 0 /dev/zero (deleted)\n\
            6000-7000 rw-p 0 0:0 0 [stack]\n\
            7000-8000 r--p 0 0:0 0 [vvar]\n";
        let regions = regions(&parse(text).unwrap());
        let kinds: Vec<_> = regions.iter().map(|region| region.kind).collect();
        use RegionKind::{Anonymous, Break, File, Kernel, Stack};
        assert_eq!(kinds, [File, Break, Anonymous, Anonymous, Kernel, Stack, Kernel]);
        let private: Vec<_> = regions.iter().map(Region::is_private_memory).collect();
        assert_eq!(private, [false, true, true, true, false, false, false]);
    }
}
