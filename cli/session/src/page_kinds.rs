//! What the pages that were mapped in a session are at its end: of which kind, and how much of them is
//! resident. One look at what the kernel tells of each mapping, when the session is over anyway; of a
//! process that has ended by then the last look is told, if it was small enough for one.

use std::{collections::BTreeMap, ops::Range};

use heapattach_ledger::{ANONYMOUS, PageKinds, Pages, STACK_OF};
use heapattach_process::proc::{
    Process,
    maps::{self, Mapping},
};
use heapattach_text::printable::printable;

use crate::thread_stacks::ThreadStacks;

/// Rows that are told apart, and files; the rest of either is not told.
const ROWS: usize = 4096;
const FILES: usize = 64;

/// What the kernel tells of a process's mappings at a moment.
#[derive(Debug)]
pub struct Regions(Vec<Region>);

/// A mapping, as the kernel tells it.
#[derive(Debug)]
struct Region {
    range: Range<u64>,
    kind: String,
    resident: u64,
}

/// Of the mappings that live, ascending, each with the row of the stack that mapped it.
pub fn look(process: &Process, ranges: &[(Range<u64>, u32)]) -> Vec<PageKinds> {
    match ranges.is_empty() {
        true => Vec::new(),
        false => Regions::with(process, &ThreadStacks::patiently(process)).kinds(ranges),
    }
}

impl Regions {
    /// As they are now.
    pub fn of(process: &Process) -> Self {
        Self::with(process, &ThreadStacks::of(process))
    }

    fn with(process: &Process, stacks: &ThreadStacks) -> Self {
        let mut regions = regions(&process.read("smaps").unwrap_or_default());
        name_stacks(&mut regions, stacks);
        Self(regions)
    }

    /// What these ranges were then: ascending, each with the row of the stack that mapped it.
    pub fn kinds(&self, ranges: &[(Range<u64>, u32)]) -> Vec<PageKinds> {
        kinds(ranges, &self.0)
    }
}

/// Anonymous memory in which a thread has its stack is that thread's.
fn name_stacks(regions: &mut [Region], stacks: &ThreadStacks) {
    for region in regions.iter_mut().filter(|region| region.kind == ANONYMOUS) {
        if let Some(thread) = stacks.within(region.range.start, region.range.end) {
            region.kind = format!("{STACK_OF}{thread}");
        }
    }
}

fn kinds(ranges: &[(Range<u64>, u32)], regions: &[Region]) -> Vec<PageKinds> {
    let mut told: BTreeMap<u32, PageKinds> = BTreeMap::new();
    let mut first = 0;
    for (range, row) in ranges {
        while regions.get(first).is_some_and(|region| region.range.end <= range.start) {
            first += 1;
        }
        for region in regions[first..].iter().take_while(|region| region.range.start < range.end) {
            if told.len() >= ROWS && !told.contains_key(row) {
                continue;
            }
            let one = told.entry(*row).or_default();
            if one.kinds.len() >= FILES && !one.kinds.contains_key(&region.kind) {
                continue;
            }
            one.kinds.entry(region.kind.clone()).or_default().add(region.within(range));
        }
    }
    told.into_iter().map(|(row, one)| PageKinds { stack: Some(row), ..one }).collect()
}

impl Region {
    /// Its part in a range.
    fn within(&self, range: &Range<u64>) -> Pages {
        let (start, end) = (self.range.start.max(range.start), self.range.end.min(range.end));
        let mapped = end.saturating_sub(start);
        let all = self.range.end.saturating_sub(self.range.start).max(1);
        let resident = u128::from(self.resident) * u128::from(mapped) / u128::from(all);
        Pages { mapped, resident: u64::try_from(resident).unwrap_or(mapped).min(mapped) }
    }
}

/// The mappings of `smaps`; of what is no such text, none.
fn regions(text: &[u8]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        if !name.ends_with(b":") {
            let parsed = maps::parse(line).unwrap_or_default();
            regions.extend(parsed.first().map(|mapping| Region {
                range: mapping.range.start.get()..mapping.range.end.get(),
                kind: kind(mapping),
                resident: 0,
            }));
            continue;
        }
        let Some(region) = regions.last_mut() else { continue };
        match name {
            b"Rss:" => region.resident = bytes(line),
            b"AnonHugePages:" | b"Private_Hugetlb:" if bytes(line) > 0 => {
                if region.kind == ANONYMOUS {
                    "huge pages".clone_into(&mut region.kind);
                }
                if name.starts_with(b"Private") {
                    region.resident = region.resident.saturating_add(bytes(line));
                }
            }
            _ => {}
        }
    }
    regions
}

/// `Rss:   12 kB`.
fn bytes(line: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(line);
    let number = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

fn kind(mapping: &Mapping<'_>) -> String {
    let label = mapping.label().to_string_lossy();
    let file = label.rsplit('/').next().unwrap_or_default();
    match () {
        () if !mapping.readable && !mapping.writable && !mapping.executable => {
            "guard pages".to_owned()
        }
        () if mapping.is_huge() => "huge pages".to_owned(),
        () if mapping.executable => "code".to_owned(),
        () if mapping.inode == 0 && !mapping.shared => ANONYMOUS.to_owned(),
        () if label.starts_with("/dev/zero") || label.starts_with("/SYSV") => {
            "shared memory".to_owned()
        }
        () if mapping.shared => format!("shared file {}", printable(file)),
        () => format!("private file {}", printable(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"1000-5000 rw-p 00000000 00:00 0 \n\
        Size:                 16 kB\nRss:                   8 kB\nAnonHugePages:         0 kB\n\
        5000-6000 ---p 00000000 00:00 0 \nRss:                   0 kB\n\
        8000-a000 rw-s 00000000 08:02 7    /srv/data.mdb\nRss:                   4 kB\n\
        b000-c000 r-xp 00000000 00:00 0 \nRss:                   4 kB\n\
        200000-400000 rw-p 00000000 00:00 0 \nRss:                2048 kB\n\
        AnonHugePages:      2048 kB\nVmFlags: rd wr mr mw me ac\n";

    #[test]
    fn pages_are_told_by_their_kind_and_how_much_of_them_is_resident() {
        let ranges = [
            (0x1000..0x3000, 1),
            (0x3000..0x6000, 2),
            (0x8000..0xa000, 1),
            (0xb000..0xc000, 3),
            (0x20_0000..0x40_0000, 4),
            (0x50_0000..0x60_0000, 5),
        ];
        let told = kinds(&ranges, &regions(SMAPS));
        let told: Vec<_> = told
            .iter()
            .flat_map(|one| {
                one.kinds.iter().map(|(kind, pages)| (one.stack.unwrap_or(0), &**kind, *pages))
            })
            .collect();
        let pages = |mapped, resident| Pages { mapped, resident };
        let expected = [
            (1, "anonymous", pages(0x2000, 0x1000)),
            (1, "shared file data.mdb", pages(0x2000, 0x1000)),
            (2, "anonymous", pages(0x2000, 0x1000)),
            (2, "guard pages", pages(0x1000, 0)),
            (3, "code", pages(0x1000, 0x1000)),
            (4, "huge pages", pages(0x20_0000, 0x20_0000)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_no_such_text_says_nothing() {
        for text in [&b""[..], b"Rss: 5 kB\n", b"1000-2000\nRss: x\n", b"\xff\n-\n:\n"] {
            assert!(kinds(&[(0..u64::MAX, 1)], &regions(text)).is_empty());
        }
    }
}
