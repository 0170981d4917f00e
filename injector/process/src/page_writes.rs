//! Which pages a process does not write to: the kernel protects them, and a first write takes the protection from its
//! page. No write waits (asynchronous write protection, Linux 6.7), and nothing is read of the memory.
//!
//! It is done over a userfaultfd of the process. When that is closed, by us or because we ended, all is as it was.
//!
//! # Safety
//! Each call passes buffers that outlive it and have the size that is coded into the request.
#![allow(unsafe_code)]

use std::{
    fs::File,
    ops::Range,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::errno::Errno;

use crate::proc::Process;

/// What the link of such a descriptor says.
pub const USERFAULTFD: &str = "anon_inode:[userfaultfd]";
/// Flags of `userfaultfd(2)`: closed by exec, and without the right to make the kernel wait.
pub const FLAGS: u64 = libc::O_CLOEXEC.unsigned_abs() as u64 | 1;

const PAGE: u64 = 4096;
/// Pages are protected in pieces of so many bytes: each holds a lock of the memory map.
const PIECE: u64 = 64 << 20;
/// Ranges that are told at once.
const TOGETHER: usize = 4096;
/// Ranges that are kept; more are taken for written.
const MOST: usize = 4 << 20;

/// Pages with a marker where there was none before, and writes that do not wait.
const FEATURES: u64 = WP_UNPOPULATED | WP_ASYNC;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 1 << 1;

/// Categories of pages.
const WP_ALLOWED: u64 = 1 << 0;
const WRITTEN: u64 = 1 << 1;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
/// What is found is protected.
const PROTECT: u64 = 1 << 0;

/// Why it cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WritesError {
    /// The kernel is older, or built without it.
    #[error("the kernel does not protect pages asynchronously ({0}); Linux 6.7 does")]
    NoKernel(Errno),
    /// The descriptor is another one.
    #[error("the descriptor that was taken over belongs to something else than a userfaultfd")]
    Foreign,
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
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Protect {
    start: u64,
    length: u64,
    mode: u64,
}

#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    found: u64,
    room: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    start: u64,
    end: u64,
    categories: u64,
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
        let mut api = Api { api: 0xaa, features: FEATURES, ioctls: 0 };
        request(&descriptor, read_write(0xaa, 0x3f, size_of::<Api>()), &mut api)
            .map_err(WritesError::NoKernel)?;
        let mut writes = Self { descriptor, pagemap, areas: Vec::new(), protected: 0 };
        for area in areas {
            let length = area.end.saturating_sub(area.start);
            let mut own = Register { start: area.start, length, mode: MODE_WP, ioctls: 0 };
            let register = read_write(0xaa, 0, size_of::<Register>());
            match request(&writes.descriptor, register, &mut own) {
                Ok(()) => writes.areas.push(area.clone()),
                // The process goes on: it is gone, or is another mapping by now.
                Err(Errno::EINVAL | Errno::ENOMEM | Errno::EBUSY | Errno::EPERM) => {}
                Err(errno) => return Err(refused("UFFDIO_REGISTER")(errno)),
            }
        }
        let there = Scan { any_of: PRESENT | SWAPPED, flags: PROTECT, ..Scan::default() };
        for area in writes.areas.clone() {
            for piece in pieces(&area) {
                writes.protected += bytes(&writes.scan(&there, &piece)?);
            }
        }
        Ok(writes)
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
        let unwritten = Scan {
            inverted: WRITTEN,
            all_of: WRITTEN | WP_ALLOWED,
            any_of: PRESENT | SWAPPED,
            ..Scan::default()
        };
        let mut all: Vec<Range<u64>> = Vec::new();
        for area in &self.areas {
            for piece in pieces(area) {
                for range in self.scan(&unwritten, &piece)? {
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
        let mut page = Protect { start: first.start, length: PAGE, mode: 0 };
        match request(&self.descriptor, read_write(0xaa, 6, size_of::<Protect>()), &mut page) {
            Err(Errno::ESRCH) => {
                Err(WritesError::Refused { call: "UFFDIO_WRITEPROTECT", errno: Errno::ESRCH })
            }
            // That mapping may be gone.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Ranges of pages of some kind; with `PROTECT` they are protected.
    fn scan(&self, wanted: &Scan, piece: &Range<u64>) -> Result<Vec<Range<u64>>, WritesError> {
        let mut found = vec![Found::default(); TOGETHER];
        let (mut all, mut at) = (Vec::new(), piece.start);
        while at < piece.end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: at,
                end: piece.end,
                found: found.as_mut_ptr() as u64,
                room: TOGETHER as u64,
                told: PRESENT | SWAPPED,
                ..*wanted
            };
            let request = read_write(u32::from(b'f'), 16, size_of::<Scan>());
            // SAFETY: `scan` has the size that the request says; the kernel writes at most `room` elements to
            // `found`, which lives on and is not looked at meanwhile.
            let count = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), request, &raw mut scan) };
            let count = Errno::result(count)
                .map_err(|errno| WritesError::Refused { call: "PAGEMAP_SCAN", errno })?;
            let count = usize::try_from(count).unwrap_or(0);
            all.extend(found.iter().take(count).map(|found| found.start..found.end));
            if scan.walk_end <= at {
                break;
            }
            at = scan.walk_end;
        }
        Ok(all)
    }
}

fn pieces(area: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = *area;
    let step = usize::try_from(PIECE).unwrap_or(usize::MAX);
    (start..end).step_by(step).map(move |at| at..end.min(at.saturating_add(PIECE)))
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()
}

/// The number of a request that reads and writes so many bytes.
#[allow(clippy::cast_possible_truncation, reason = "some dozens of bytes")]
const fn read_write(kind: u32, number: u32, length: usize) -> libc::Ioctl {
    (3 << 30 | (length as u32) << 16 | kind << 8 | number) as libc::Ioctl
}

fn request<T>(descriptor: &OwnedFd, request: libc::Ioctl, own: &mut T) -> Result<(), Errno> {
    // SAFETY: the request says the size of `own`, which the kernel reads and writes until the call returns.
    Errno::result(unsafe { libc::ioctl(descriptor.as_raw_fd(), request, &raw mut *own) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    fn own() -> Option<OwnedFd> {
        // SAFETY: no pointers are passed.
        let number = unsafe { libc::syscall(libc::SYS_userfaultfd, FLAGS) };
        let number = i32::try_from(Errno::result(number).ok()?).ok()?;
        // SAFETY: the kernel just made this descriptor for us, and we wrap it once.
        Some(unsafe { OwnedFd::from_raw_fd(number) })
    }

    #[test]
    fn pages_that_are_written_are_told_from_those_that_are_not() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let Some(descriptor) = own() else { return };
        // Large enough to be a mapping of its own.
        let mut memory = vec![0_u8; 4 << 20];
        let start = (memory.as_ptr() as u64 + (1 << 20)).next_multiple_of(PAGE);
        let first = usize::try_from(start - memory.as_ptr() as u64).unwrap();
        let page = |number: usize| first + number * 4096;
        (0..32).for_each(|number| memory[page(number)] = 1);
        let area = start..start + 64 * PAGE;
        let writes = match PageWrites::watch(&process, descriptor, std::slice::from_ref(&area)) {
            Err(WritesError::NoKernel(_)) => return,
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
    fn another_descriptor_is_not_used() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let file = File::open("/dev/null").unwrap();
        let refused = PageWrites::watch(&process, file.into(), &[]);
        assert_eq!(refused.unwrap_err(), WritesError::Foreign);
    }
}
