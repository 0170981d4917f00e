//! How much of a process's address space is of which kind, to say what grew besides what was allocated by
//! hooked functions.

use std::{collections::BTreeMap, ops::Range};

use heapattach_process::proc::{Process, maps};

/// Bytes by kind.
pub type Spread = BTreeMap<String, u64>;

/// What we map ourselves.
const OURS: &[u8] = b"/memfd:heapattach";

/// Where the heap of brk ends, in the kernel's list of a process, or would begin.
pub fn heap_end(process: &Process, maps: &[maps::Mapping<'_>]) -> Option<u64> {
    let heap = maps.iter().rev().find(|mapping| mapping.label() == "[heap]");
    heap.map(|mapping| mapping.range.end.get()).or_else(|| process.heap_start())
}

/// By how much each kind is larger than it was.
pub fn grown(before: &Spread, after: &Spread) -> Spread {
    let more = after.iter().map(|(kind, bytes)| {
        (kind.clone(), bytes.saturating_sub(before.get(kind).copied().unwrap_or(0)))
    });
    more.filter(|(_, bytes)| *bytes > 0).collect()
}

/// Whether a mapping is our own memory, or lies in our home.
pub fn is_ours(mapping: &maps::Mapping<'_>, home: &Range<u64>) -> bool {
    mapping.label().as_encoded_bytes().starts_with(OURS)
        || (home.contains(&mapping.range.start.get()) && mapping.range.end.get() <= home.end)
}

/// Of the kernel's list of a process; what cannot be touched does not count, and what is ours neither.
pub fn spread(maps: &[maps::Mapping<'_>], home: &Range<u64>) -> Spread {
    let mut all = Spread::new();
    let counts = |mapping: &&maps::Mapping<'_>| {
        (mapping.readable || mapping.writable) && !is_ours(mapping, home)
    };
    for mapping in maps.iter().filter(counts) {
        let bytes = mapping.range.end.get().saturating_sub(mapping.range.start.get());
        let sum = all.entry(kind(mapping).to_owned()).or_default();
        *sum = sum.saturating_add(bytes);
    }
    all
}

/// What kind of mapping it is, in words.
pub fn kind(mapping: &maps::Mapping<'_>) -> &'static str {
    let label = mapping.label().to_string_lossy();
    match &*label {
        "anon_inode:[io_uring]" => "rings of io_uring",
        name if name.starts_with("/[aio]") => "rings of AIO",
        "[heap]" => "the heap of brk",
        "[stack]" => "the stack",
        "" => "anonymous mappings",
        name if name.starts_with("[anon") => "anonymous mappings",
        name if name.starts_with("/anon_hugepage") => "huge pages",
        name if name.starts_with('[') => "pages of the kernel",
        _ if mapping.shared => "shared memory and shared files",
        _ => "private mappings of files",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_is_told_by_its_kind() {
        let before = b"1000-2000 rw-p 00000000 00:00 0 \n2000-9000 ---p 00000000 00:00 0 \n";
        let after = b"1000-5000 rw-p 00000000 00:00 0 \n5000-9000 ---p 00000000 00:00 0 \n\
                      a000-b000 rw-p 00000000 00:00 0    [heap]\n\
                      c000-d000 rw-s 00000000 00:01 5    /dev/shm/x\n";
        let spread = |text: &[u8]| spread(&maps::parse(text).unwrap_or_default(), &(0..0));
        let grown = grown(&spread(before), &spread(after));
        let told: Vec<_> = grown.iter().map(|(kind, bytes)| (kind.as_str(), *bytes)).collect();
        assert_eq!(
            told,
            [
                ("anonymous mappings", 0x3000),
                ("shared memory and shared files", 0x1000),
                ("the heap of brk", 0x1000),
            ]
        );
        assert!(spread(b"nonsense\n").is_empty());
    }
}
