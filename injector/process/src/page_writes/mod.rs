//! Which pages a process does not write to: the kernel protects them, and a first write takes the protection from its
//! page. No write waits (asynchronous write protection, Linux 6.7), and nothing is read of the memory.
//!
//! It is done over a userfaultfd of the process. When that is closed, by us or because we ended, all is as it was.

mod areas;
mod early;
mod requests;
mod since;
#[cfg(test)]
mod since_tests;

pub use areas::watchable;
pub use requests::Pages;

use std::{
    fs::File,
    ops::Range,
    os::fd::{AsRawFd, OwnedFd},
    thread,
};

use nix::errno::Errno;

use crate::{
    proc::Process,
    ranges::{joined, minus},
};
use requests::Wanted;

/// What the link of such a descriptor says.
pub const USERFAULTFD: &str = "anon_inode:[userfaultfd]";
/// Flags of `userfaultfd(2)`: closed by exec, and without the right to make the kernel wait.
pub const FLAGS: u64 = libc::O_CLOEXEC.unsigned_abs() as u64 | 1;

const PAGE: u64 = 4096;
/// Pages are protected in pieces of so many bytes: each holds a lock of the memory map.
const PIECE: u64 = 64 << 20;
/// To take the protection away costs more, and holds that lock alone.
const SMALL_PIECE: u64 = 8 << 20;
/// Threads that ask the kernel at once, at most.
const THREADS: usize = 4;
/// Ranges that are kept; more are taken for written.
const MOST: usize = 4 << 20;

/// Why it cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WritesError {
    /// The kernel is older, or built without it.
    #[error("the kernel does not protect pages asynchronously ({0}); Linux 6.7 does")]
    NoKernel(Errno),
    /// The descriptor is another one.
    #[error("the descriptor that was taken over belongs to something else than a userfaultfd")]
    Foreign,
    /// More ranges than are kept.
    #[error("written and unwritten pages change too often to be told apart in the time there is")]
    TooMuch,
    /// A call failed.
    #[error("{call} failed ({errno})")]
    Refused {
        /// Which.
        call: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
}

/// Pages that are watched.
#[derive(Debug)]
pub struct PageWrites {
    descriptor: OwnedFd,
    pagemap: File,
    areas: Vec<Range<u64>>,
    protected: u64,
    /// Found out beforehand: that takes calls.
    threads: usize,
}

impl PageWrites {
    /// Begins, for these areas of a process: whole mappings of private memory without a file. Those that came and went
    /// meanwhile are left out.
    ///
    /// # Errors
    /// When the kernel cannot, or the descriptor is none of this kind.
    pub fn watch(
        process: &Process,
        descriptor: OwnedFd,
        areas: &[Range<u64>],
    ) -> Result<Self, WritesError> {
        let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        if !std::fs::read_link(link).is_ok_and(|link| link.as_os_str() == USERFAULTFD) {
            return Err(WritesError::Foreign);
        }
        let refused = |call| move |errno| WritesError::Refused { call, errno };
        let pagemap = process.open_pagemap().map_err(refused("open pagemap"))?;
        requests::begin(&descriptor).map_err(WritesError::NoKernel)?;
        let threads = thread::available_parallelism().map_or(1, |count| count.get().min(THREADS));
        let mut writes = Self { descriptor, pagemap, areas: Vec::new(), protected: 0, threads };
        writes.watch_more(areas)?;
        Ok(writes)
    }

    /// Watches these areas, too, as far as they are not: memory that came meanwhile. Answers the pages of them that are
    /// there, which are protected from now on; ascending.
    ///
    /// # Errors
    /// As [`watch`](Self::watch).
    pub fn watch_more(&mut self, areas: &[Range<u64>]) -> Result<Vec<Range<u64>>, WritesError> {
        // A map that changes while it is read can tell a place twice.
        let mut areas = areas.to_vec();
        areas.sort_by_key(|area| area.start);
        let (mut fresh, mut end) = (Vec::new(), 0);
        for area in &mut areas {
            area.start = area.start.max(end);
            end = end.max(area.end);
        }
        for area in minus(areas.iter().filter(|area| area.start < area.end), &self.areas) {
            match requests::register(&self.descriptor, &area) {
                Ok(()) => fresh.push(area),
                // The process goes on: it is gone, or is another mapping by now.
                Err(Errno::EINVAL | Errno::ENOMEM | Errno::EBUSY | Errno::EPERM) => {}
                Err(errno) => {
                    return Err(WritesError::Refused { call: "UFFDIO_REGISTER", errno });
                }
            }
        }
        // Noted first: should a scan fail, their watch ends with this all the same.
        self.areas.extend(fresh.iter().cloned());
        self.areas.sort_by_key(|area| area.start);
        self.areas = joined(std::mem::take(&mut self.areas));
        let mut protected = Vec::new();
        for piece in fresh.iter().flat_map(pieces) {
            let found = self.scan(Wanted::Protect, &piece)?;
            self.protected += bytes(&found);
            protected.extend(found.into_iter().map(|pages| pages.range));
        }
        Ok(protected)
    }

    /// Bytes on pages that were protected.
    pub fn protected(&self) -> u64 {
        self.protected
    }

    /// Pages that were there at the beginning, and were not written to since; ascending.
    ///
    /// # Errors
    /// When the kernel does not tell: the process has ended, or has begun another program.
    pub fn unwritten(&self) -> Result<Vec<Range<u64>>, WritesError> {
        let mut all: Vec<Range<u64>> = Vec::new();
        for area in &self.areas {
            for piece in pieces(area) {
                for Pages { range, .. } in self.scan(Wanted::Unwritten, &piece)? {
                    let is_full = all.len() >= MOST;
                    match all.last_mut() {
                        Some(last) if last.end == range.start => last.end = range.end,
                        _ if is_full => return self.still_there().map(|()| all),
                        _ => all.push(range),
                    }
                }
            }
        }
        self.still_there().map(|()| all)
    }

    /// Of memory that is gone nothing is found, which does not mean that it was written.
    fn still_there(&self) -> Result<(), WritesError> {
        let Some(first) = self.areas.first() else { return Ok(()) };
        match requests::release(&self.descriptor, first.start, PAGE) {
            Err(Errno::ESRCH) => {
                Err(WritesError::Refused { call: "UFFDIO_WRITEPROTECT", errno: Errno::ESRCH })
            }
            // That mapping may be gone.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn scan(&self, wanted: Wanted, piece: &Range<u64>) -> Result<Vec<Pages>, WritesError> {
        requests::scan(&self.pagemap, wanted, piece)
            .map_err(|errno| WritesError::Refused { call: "PAGEMAP_SCAN", errno })
    }
}

/// By pieces: when the descriptor is closed the kernel takes all protection away at once, and no page of the process
/// can come meanwhile.
impl Drop for PageWrites {
    fn drop(&mut self) {
        for piece in self.areas.iter().flat_map(|area| pieces_of(area, SMALL_PIECE)) {
            // What is left is done at the end.
            if requests::unregister(&self.descriptor, &piece) == Err(Errno::ESRCH) {
                break;
            }
        }
    }
}

fn pieces(area: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    pieces_of(area, PIECE)
}

fn pieces_of(area: &Range<u64>, length: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *area;
    let step = usize::try_from(length).unwrap_or(usize::MAX);
    (start..end).step_by(step).map(move |at| at..end.min(at.saturating_add(length)))
}

fn bytes(pages: &[Pages]) -> u64 {
    pages.iter().map(|pages| pages.range.end.saturating_sub(pages.range.start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In CI it is a failure.
    pub(super) fn skipped(why: &str) {
        eprintln!("SKIPPED: {why}; need Linux 6.7, and userfaultfd allowed to this user");
        assert!(std::env::var_os("CI").is_none(), "{why}");
    }

    #[test]
    fn pages_that_are_written_are_told_from_those_that_are_not() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let Some(descriptor) = requests::own_descriptor() else {
            return skipped("there is no userfaultfd");
        };
        // Always a mapping of its own: what other tests freed has pages already.
        let mut memory = vec![0_u8; 40 << 20];
        let start = (memory.as_ptr() as u64 + (1 << 20)).next_multiple_of(PAGE);
        let first = usize::try_from(start - memory.as_ptr() as u64).unwrap();
        let page = |number: usize| first + number * 4096;
        (0..32).for_each(|number| memory[page(number)] = 1);
        let area = start..start + 64 * PAGE;
        let writes = match PageWrites::watch(&process, descriptor, std::slice::from_ref(&area)) {
            Err(error @ WritesError::NoKernel(_)) => return skipped(&error.to_string()),
            other => other.unwrap(),
        };
        assert!(writes.protected() >= 32 * PAGE, "{}", writes.protected());
        (0..40).filter(|number| number % 4 == 0).for_each(|number| memory[page(number)] = 2);
        let unwritten = writes.unwritten().unwrap();
        let has = |number: u64| {
            let at = start + number * PAGE;
            unwritten.iter().any(|range| range.contains(&at))
        };
        for number in 0..40 {
            // A huge page is one page.
            let is_huge = writes.protected() > 32 * PAGE;
            assert_eq!(has(number), number % 4 != 0 && number < 32 && !is_huge, "{number}");
        }
        drop(writes);
        assert_eq!(memory[page(4)], 2);
    }

    #[test]
    fn what_came_later_is_watched_too() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let Some(descriptor) = requests::own_descriptor() else {
            return skipped("there is no userfaultfd");
        };
        // A mapping of its own, as above.
        let mut memory = vec![0_u8; 40 << 20];
        let start = (memory.as_ptr() as u64 + (4 << 20)).next_multiple_of(PAGE);
        let first = usize::try_from(start - memory.as_ptr() as u64).unwrap();
        let page = |number: usize| first + number * 4096;
        let pages = |from: u64, to: u64| start + from * PAGE..start + to * PAGE;
        let mut writes = match PageWrites::watch(&process, descriptor, &[pages(8, 16)]) {
            Err(error @ WritesError::NoKernel(_)) => return skipped(&error.to_string()),
            other => other.unwrap(),
        };
        [2, 9, 17].into_iter().for_each(|number| memory[page(number)] = 1);
        let came = writes.watch_more(&[pages(0, 12), pages(12, 20)]).unwrap();
        assert_eq!(came, [pages(2, 3), pages(17, 18)]);
        assert_eq!(writes.areas(), [pages(0, 20)]);
        assert_eq!(writes.written_again().unwrap(), [pages(9, 10)]);
        [2, 3, 18].into_iter().for_each(|number| memory[page(number)] = 2);
        assert_eq!(writes.written_again().unwrap(), [pages(2, 4), pages(18, 19)]);
        assert!(writes.watch_more(&[pages(0, 20)]).unwrap().is_empty());
    }

    #[test]
    fn another_descriptor_is_not_used() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let file = File::open("/dev/null").unwrap();
        let refused = PageWrites::watch(&process, file.into(), &[]);
        assert_eq!(refused.unwrap_err(), WritesError::Foreign);
    }
}
