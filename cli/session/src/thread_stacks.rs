//! Whose stack a mapping is: where the stack of each thread that waits just then is in use, as the kernel tells
//! without a stop. Of a thread that runs all the time it tells nothing.

use std::time::Duration;

use heapattach_process::proc::Process;
use heapattach_text::printable::printable;

/// Threads that are looked at: two files each.
const THREADS: usize = 1024;
/// So often one is looked at that runs just then: it may go back to where it waits.
const TURNS: usize = 10;
const PAUSE: Duration = Duration::from_millis(3);

/// Addresses within stacks, ascending, each with the name of its thread.
#[derive(Debug, Default)]
pub struct ThreadStacks(Vec<(u64, String)>);

impl ThreadStacks {
    /// Of a process, without waiting for a thread that runs just then.
    pub fn of(process: &Process) -> Self {
        Self::in_turns(process, 1)
    }

    /// Of a process, also of threads that soon wait again.
    pub fn patiently(process: &Process) -> Self {
        Self::in_turns(process, TURNS)
    }

    fn in_turns(process: &Process, turns: usize) -> Self {
        let mut left = process.threads().unwrap_or_default();
        left.truncate(THREADS);
        let mut stacks = Vec::new();
        for turn in 0..turns {
            if turn > 0 && !left.is_empty() {
                std::thread::sleep(PAUSE);
            }
            left.retain(|&tid| {
                let Ok(call) = process.read_thread(tid, "syscall") else { return false };
                let Some(at) = pointer(&call) else { return true };
                if let Ok(name) = process.read_thread(tid, "comm") {
                    stacks.push((at, printable(&String::from_utf8_lossy(name.trim_ascii()))));
                }
                false
            });
        }
        stacks.sort_unstable();
        Self(stacks)
    }

    /// The first thread whose stack is in use between two addresses.
    pub fn within(&self, start: u64, end: u64) -> Option<&str> {
        let first = self.0.partition_point(|(at, _)| *at < start);
        self.0.get(first).filter(|(at, _)| *at < end).map(|(_, name)| name.as_str())
    }
}

/// The second to last number of `202 0x7f.. 0x189 .. 0x7ffd.. 0x7f..`, or of `-1 0x7ffd.. 0x7f..`.
fn pointer(syscall: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(syscall).ok()?;
    let word = text.split_ascii_whitespace().rev().nth(1)?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_of_a_thread_that_waits_is_known_by_its_name() {
        let (ready, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("waits here".to_owned());
        let thread = thread.spawn(move || {
            let local = 0_u8;
            ready.send(std::ptr::from_ref(&local) as u64).unwrap();
            ended.recv().unwrap_err();
        });
        let at = begun.recv().unwrap();
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        // It may not wait yet.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let within = || {
            let stacks = ThreadStacks::of(&process);
            stacks.within(at - 0x4000, at + 0x1000).map(str::to_owned)
        };
        let mut name = within();
        while name.is_none() && std::time::Instant::now() < deadline {
            name = within();
        }
        assert_eq!(name.as_deref(), Some("waits here"));
        assert_eq!(ThreadStacks::of(&process).within(0, 0x1000), None);
        drop(end);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn what_is_no_such_line_tells_nothing() {
        assert_eq!(pointer(b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd10 0x7f20\n"), Some(0x7f_fd10));
        assert_eq!(pointer(b"-1 0x7ffd10 0x7f20\n"), Some(0x7f_fd10));
        for line in [&b"running\n"[..], b"", b"0 0\n", b"0xq 0x1", b"\xff 0x1"] {
            assert_eq!(pointer(line), None);
        }
    }
}
