//! What is known of the process besides its allocator.

use std::time::Instant;

use heapattach_process::proc::Process;
use heapattach_verdict::advice::Conditions;

/// A name that jemalloc gives its own threads.
const BACKGROUND: &[u8] = b"jemalloc_bg_thd";

/// What is in transparent huge pages: the kernel goes through all page tables for it.
#[derive(Debug, Default)]
pub struct Huge {
    bytes: u64,
    due: Option<Instant>,
}

impl Huge {
    /// So long as it took, so many times it is good for.
    const GOOD: u32 = 2000;

    /// As it is, or was not long ago.
    pub fn of(&mut self, process: &Process) -> u64 {
        let began = Instant::now();
        if self.due.is_none_or(|due| due <= began) {
            let text = process.read("smaps_rollup");
            self.bytes = text.map_or(0, |text| field(&text, b"AnonHugePages:") << 10);
            self.due = began.checked_add(began.elapsed().saturating_mul(Self::GOOD));
        }
        self.bytes
    }
}

/// As it is now; 0 for what cannot be read.
pub fn conditions(process: &Process, huge: &mut Huge) -> Conditions {
    let status = process.read("status").unwrap_or_default();
    let threads = process.threads().unwrap_or_default();
    let is_background = |tid: &&i32| {
        process.read_thread(**tid, "comm").is_ok_and(|name| name.trim_ascii() == BACKGROUND)
    };
    Conditions {
        threads: threads.len() as u64,
        cpus: cpus(&status),
        resident: field(&status, b"VmRSS:") << 10,
        anonymous_huge: huge.of(process),
        running_s: process.running_for().map_or(0, |time| time.as_secs()),
        background_threads: threads.iter().filter(is_background).count() as u64,
    }
}

/// Processors that it may use.
pub fn cpus_of(process: &Process) -> u64 {
    cpus(&process.read("status").unwrap_or_default())
}

/// Its resident set, counted page by page.
pub fn resident(process: &Process) -> u64 {
    process.read("smaps_rollup").map_or(0, |text| field(&text, b"Rss:") << 10)
}

/// The number behind a name.
fn field(text: &[u8], name: &[u8]) -> u64 {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
    let first = line.and_then(|line| {
        line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())
    });
    first.and_then(|word| str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0)
}

/// Processors that it may use: ones in a mask of groups of hexadecimal digits.
fn cpus(status: &[u8]) -> u64 {
    let mut lines = status.split(|byte| *byte == b'\n');
    let mask = lines.find_map(|line| line.strip_prefix(b"Cpus_allowed:"));
    let digits = mask.unwrap_or_default().iter();
    digits
        .filter_map(|digit| char::from(*digit).to_digit(16))
        .map(|digit| u64::from(digit.count_ones()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_read_seldom() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        let mut huge = Huge::default();
        huge.of(&own);
        let due = huge.due;
        huge.bytes = 7;
        assert!(huge.of(&own) == 7 || huge.due > due);
    }

    #[test]
    fn the_kernels_lines_are_read() {
        let status = b"VmRSS:\t    2048 kB\nThreads:\t3\nCpus_allowed:\t3,ffffffff\n";
        assert_eq!((field(status, b"VmRSS:"), cpus(status)), (2048, 34));
        assert_eq!((field(b"", b"VmRSS:"), cpus(b"")), (0, 0));
    }
}
