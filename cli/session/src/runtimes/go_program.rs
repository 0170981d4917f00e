//! Go programs: which may be one, and what to do with those that hooks do not see.

use std::ops::Range;

use heapattach_census::{Live, Moment, Region, RegionKind};
use heapattach_golang::Go;
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::Process};

use super::signs::has_go_note;

const PAGE: usize = 4096;

/// Whether a C library is among what is mapped.
pub fn has_c_library(regions: &[Region]) -> bool {
    let is_c = |label: &str| {
        let name = label.rsplit('/').next().unwrap_or(label);
        name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("ld-musl")
    };
    regions.iter().any(|region| is_c(&region.label))
}

/// Whether it is worth a search for Go, which reads through the variables of all modules: one without a C library
/// can be anything; another one has Go if a module has the note of its linker, in its first page.
pub fn may_be(process: &Process, regions: &[Region]) -> bool {
    let Ok(memory) = Memory::open(process) else { return false };
    let is_first = |region: &&Region| {
        region.kind == RegionKind::File && region.readable && region.file_offset == 0
    };
    let has_note = |region: &Region| {
        let mut head = [0; PAGE];
        let read = memory.read_some(RemoteAddr::new(region.range.start), &mut head).unwrap_or(0);
        has_go_note(&head[..read])
    };
    !has_c_library(regions) || regions.iter().filter(is_first).any(has_note)
}

/// What to do with one that is to be checked, or that a program becomes: hooks are of no use there.
pub fn instead(pid: i32) -> Option<String> {
    let process = Process::open(pid).ok()?;
    let regions = Live::regions(&process).ok()?;
    if has_c_library(&regions) {
        return None;
    }
    let live = Live::open(&process).ok()?;
    let go = Go::find(&Moment::new(&live, regions, Vec::new()))?.ok()?;
    Some(format!(
        "the program is {} without a C library: its collector frees what nothing leads to, so that a check has no leaks \
         to find; hooks do not see its heap, and its runtime tells it only while it runs; need `heapattach run -- COMMAND` or `heapattach -p PID` for its profile, `heapattach heap -p PID` for \
         its objects and for goroutines that wait for ever",
        go.release.text
    ))
}

/// Where the code of Go is in a program that has a C library as well.
pub fn code_beside(process: &Process) -> Option<Range<u64>> {
    let regions = Live::regions(process).ok()?;
    if !has_c_library(&regions) || !may_be(process, &regions) {
        return None;
    }
    let live = Live::open(process).ok()?;
    let go = Go::find(&Moment::new(&live, regions, Vec::new()))?.ok()?;
    Some(go.functions.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_c_library_is_left_to_hooks() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        assert_eq!(instead(process.pid()), None);
        let regions = Live::regions(&process).unwrap();
        // No test is built by Go.
        assert!(!may_be(&process, &regions) || !has_c_library(&regions));
    }
}
