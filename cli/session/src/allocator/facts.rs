//! What is known of the process besides its allocator.

use heapattach_process::proc::Process;
use heapattach_verdict::advice::Conditions;

/// A name that jemalloc gives its own threads.
const BACKGROUND: &[u8] = b"jemalloc_bg_thd";

/// As it is now; 0 for what cannot be read.
pub fn conditions(process: &Process) -> Conditions {
    let status = process.read("status").unwrap_or_default();
    let threads = process.threads().unwrap_or_default();
    let is_background = |tid: &&i32| {
        process.read_thread(**tid, "comm").is_ok_and(|name| name.trim_ascii() == BACKGROUND)
    };
    Conditions {
        threads: threads.len() as u64,
        cpus: cpus(&status),
        resident: field(&status, b"VmRSS:") << 10,
        anonymous_huge: process
            .read("smaps_rollup")
            .map_or(0, |text| field(&text, b"AnonHugePages:") << 10),
        running_s: process.running_for().map_or(0, |time| time.as_secs()),
        background_threads: threads.iter().filter(is_background).count() as u64,
    }
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
    fn the_kernels_lines_are_read() {
        let status = b"VmRSS:\t    2048 kB\nThreads:\t3\nCpus_allowed:\t3,ffffffff\n";
        assert_eq!((field(status, b"VmRSS:"), cpus(status)), (2048, 34));
        assert_eq!((field(b"", b"VmRSS:"), cpus(b"")), (0, 0));
    }
}
