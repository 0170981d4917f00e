//! How much memory a process of ours takes for itself: pages that it shares with others by their part, since all
//! sessions are forked from one process and have most pages in common. The kernel walks all pages to tell that: it is
//! asked again only when there may be something new.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use heapattach_agent::Key;

/// Others begin and end meanwhile, which makes the parts smaller and larger.
const FRESH: Duration = Duration::from_secs(60);
/// By so much its memory may change until then.
const SMALL: u64 = 1 << 20;

/// What is known of the processes of ours.
#[derive(Debug, Default)]
pub struct Shares(HashMap<Key, Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    at: Instant,
    resident: u64,
    share: u64,
}

impl Shares {
    /// The share of a process that has so much in memory; `read` asks the kernel.
    pub fn of(
        &mut self,
        key: Key,
        resident: u64,
        now: Instant,
        read: impl FnOnce() -> Option<u64>,
    ) -> u64 {
        let is_fresh = |known: &&Known| {
            now.duration_since(known.at) < FRESH && resident.abs_diff(known.resident) < SMALL
        };
        if let Some(known) = self.0.get(&key).filter(is_fresh) {
            // What came since is its own, as far as is known.
            return known.share + resident.saturating_sub(known.resident);
        }
        // Without that, more than it takes is better than less.
        let Some(share) = read() else { return resident };
        self.0.insert(key, Known { at: now, resident, share });
        share
    }

    /// Forgets processes that are there no more.
    pub fn retain(&mut self, is_there: impl Fn(Key) -> bool) {
        self.0.retain(|key, _| is_there(*key));
    }
}

/// As the kernel tells it now.
pub fn read(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_when_memory_changed_or_time_has_passed() {
        let (mut shares, key, began) =
            (Shares::default(), Key { pid: 7, start: 1 }, Instant::now());
        let mut ask = |resident, after: u64, told: Option<u64>| {
            let mut was_asked = false;
            let share = shares.of(key, resident, began + Duration::from_secs(after), || {
                was_asked = true;
                told
            });
            (share, was_asked)
        };
        assert_eq!(ask(20 << 20, 0, None), (20 << 20, true), "it may not be read");
        assert_eq!(ask(20 << 20, 0, Some(2 << 20)), (2 << 20, true));
        assert_eq!(ask((20 << 20) + 4096, 5, None), ((2 << 20) + 4096, false));
        assert_eq!(ask(22 << 20, 6, Some(4 << 20)), (4 << 20, true));
        assert_eq!(ask(22 << 20, 70, Some(3 << 20)), (3 << 20, true));
        shares.retain(|_| false);
        assert!(shares.0.is_empty());
    }

    #[test]
    fn the_line_of_the_kernel_is_found() {
        let text = "0-1 ---p 0 00:00 0 [rollup]\nRss: 20480 kB\nPss:  1234 kB\nPss_Anon: 5 kB\n";
        assert_eq!(parse(text), Some(1234 << 10));
        assert_eq!(parse("Pss: many kB"), None);
    }

    #[test]
    fn a_process_that_was_forked_counts_less_than_it_has_in_memory() {
        let own = std::process::id().cast_signed();
        let share = read(own).expect("a process of ours");
        let status = fs::read_to_string("/proc/self/status").expect("a process of ours");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let resident: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(share > 0 && share <= (resident + 4096) << 10, "{share} of {resident} KiB");
    }
}
