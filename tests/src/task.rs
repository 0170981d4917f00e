//! One thread of a process, as `/proc` shows it, and signals to it.
//!
//! # Safety
//!
//! One system call without pointers that no crate in use wraps.
#![allow(unsafe_code)]

use std::{fs, io};

use nix::libc;

/// How often the threads of a process slept, those that there are.
pub fn slept(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let count = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(|task| fs::read_to_string(task.path().join("status")).map_or(0, count)).sum()
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub process: i32,
    /// Its own id.
    pub id: i32,
}

impl Task {
    /// The first thread of a process.
    pub fn leader(process: i32) -> Self {
        Self { process, id: process }
    }

    /// Its state: `R`, `S`, `T` (stopped), `t` (stopped by a tracer), `Z`, ...
    pub fn state(self) -> Option<char> {
        let stat = fs::read_to_string(self.file("stat")).ok()?;
        // The name before the state may hold anything, parentheses too.
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// The number of the system call it is blocked in.
    pub fn system_call(self) -> Option<u64> {
        let text = fs::read_to_string(self.file("syscall")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// Sends it, and no other thread, a signal.
    ///
    /// # Errors
    /// `EAGAIN` if too many signals are queued, `ESRCH` if it is gone.
    pub fn signal(self, number: i32) -> io::Result<()> {
        // SAFETY: tgkill takes three numbers and touches no memory of ours.
        match unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.id, number) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn file(self, name: &str) -> String {
        format!("/proc/{}/task/{}/{name}", self.process, self.id)
    }
}
