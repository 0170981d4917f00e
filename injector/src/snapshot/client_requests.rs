//! Whether a program is annotated for valgrind: its requests, by kind. They do nothing here.

use heapattach_process::proc::maps;

use crate::{
    arch,
    hook::requests::is_seen_whole,
    module::{
        build::Build,
        without_requests::{self, Part},
    },
    trace::target::Target,
};

/// Code of all modules that is searched, at most, and at a time.
const MOST_CODE: u64 = 1 << 28;
const PIECE: u64 = 1 << 20;
/// Bytes of a piece that the next one has, too: a request and its arguments.
const OVERLAP: u64 = 512;

/// How many requests of each kind there are in the code of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRequests {
    /// That tell of pools and of what is in them.
    pub pools: u64,
    /// That tell of blocks of an allocator of the program's own.
    pub blocks: u64,
    /// That ask for a check for leaks, or what it found.
    pub leak_checks: u64,
    /// All others, and those whose number is no constant.
    pub others: u64,
}

/// Numbers of those that valgrind itself hears, first and last of each group; and of those that its tools do
/// (memcheck, helgrind, callgrind, DRD).
const CORE: [(u32, u32); 9] = [
    (0x1001, 0x1003),
    (0x1101, 0x1104),
    (0x1201, 0x1203),
    (0x1301, 0x130b),
    (0x1401, 0x1404),
    (0x1501, 0x1501),
    (0x1601, 0x1601),
    (0x1701, 0x1701),
    (0x1801, 0x1802),
];
const TOOLS: [[u8; 2]; 4] = [*b"MC", *b"HG", *b"CT", *b"DR"];

/// Looks through the code of the modules that are there.
pub fn of(target: &Target) -> ClientRequests {
    let mut all = ClientRequests::default();
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let mut left = MOST_CODE;
    let is_wanted = |map: &&maps::Mapping<'_>| {
        let name = map.file().and_then(|file| file.file_name()?.to_str());
        map.executable && name.is_some_and(|name| !is_seen_whole(name))
    };
    for map in maps.iter().filter(is_wanted) {
        let (mut at, end) = (map.range.start, map.range.end);
        let part = Part::Mapped(map.file_offset, end.offset_from(at).unwrap_or(0));
        let build = Build::of((&target.process, &target.memory), &maps, map);
        if build.as_ref().is_some_and(|build| without_requests::has_none(build, part)) {
            continue;
        }
        let (before, mut is_read) = (all, true);
        while at < end && left != 0 {
            let length = end.offset_from(at).unwrap_or(0).min(PIECE).min(left);
            let code = target.memory.read_vec(at, usize::try_from(length).unwrap_or(0));
            is_read &= code.is_ok();
            all.add(&code.unwrap_or_default(), at != map.range.start);
            left -= length;
            let step =
                if at.offset(length) < end { length.saturating_sub(OVERLAP) } else { length };
            if step == 0 {
                break;
            }
            at = at.offset(step);
        }
        if is_read && before == all && at >= end {
            build.into_iter().for_each(|build| without_requests::note(build, part));
        }
    }
    all
}

impl ClientRequests {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those in a piece of code; what ends in the part that the one before has, too, was counted there.
    fn add(&mut self, code: &[u8], has_one_before: bool) {
        for (end, number) in arch::client_requests(code, is_number) {
            if has_one_before && end as u64 <= OVERLAP {
                continue;
            }
            match number {
                Some(0x1303..=0x130a) => self.pools += 1,
                Some(0x1301 | 0x1302 | 0x130b) => self.blocks += 1,
                Some(0x4d43_0006 | 0x4d43_0007 | 0x4d43_000c) => self.leak_checks += 1,
                _ => self.others += 1,
            }
        }
    }
}

/// Whether a request has this number, of one of the tools or of all.
fn is_number(number: u32) -> bool {
    let [low, high, second, first] = number.to_le_bytes();
    let is_tools = TOOLS.contains(&[first, second]) && high <= 1 && low < 0x40;
    is_tools || CORE.iter().any(|(least, last)| (*least..=*last).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_requests_are_some() {
        for number in [0x1001, 0x1301, 0x130b, 0x4d43_0000, 0x4d43_0006, 0x4847_0101, 0x4354_0000] {
            assert!(is_number(number), "{number:#x}");
        }
        for number in [0, 16, 0x1000, 0x130c, 0x1824, 0x2000, 0x4d43_8000, 0x4142_0000, u32::MAX] {
            assert!(!is_number(number), "{number:#x}");
        }
    }
}
