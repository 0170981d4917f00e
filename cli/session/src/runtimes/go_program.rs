//! Go programs without a C library: hooks do not see their heap.

use heapattach_census::{Live, Moment, Region};
use heapattach_golang::find::Go;
use heapattach_process::proc::Process;

/// Whether a C library is among what is mapped.
pub fn has_c_library(regions: &[Region]) -> bool {
    let is_c = |label: &str| {
        let name = label.rsplit('/').next().unwrap_or(label);
        name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("ld-musl")
    };
    regions.iter().any(|region| is_c(&region.label))
}

/// What to do with one that is to be run or checked: its profile cannot be read from its start on.
pub fn instead(pid: i32) -> Option<String> {
    let process = Process::open(pid).ok()?;
    let regions = Live::regions(&process).ok()?;
    if has_c_library(&regions) {
        return None;
    }
    let live = Live::open(&process).ok()?;
    let go = Go::find(&Moment::new(&live, regions, Vec::new()))?.ok()?;
    Some(format!(
        "the program is {} without a C library: hooks do not see its heap, and its runtime tells it only while it \
         runs; need it started first; then `heapattach -p PID` for its profile, `heapattach heap -p PID` for its \
         objects and for goroutines that wait for ever",
        go.release.text
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_c_library_is_left_to_hooks() {
        assert_eq!(instead(std::process::id().cast_signed()), None);
    }
}
