//! The kernel's requests that pages are watched with, which nix does not wrap: of a userfaultfd, and of a map of pages.
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

/// Ranges that are told at once.
const TOGETHER: usize = 4096;

/// Features: pages with a marker where there was none before, and writes that do not wait.
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 1 << 1;

/// Categories of pages.
const WP_ALLOWED: u64 = 1 << 0;
const WRITTEN: u64 = 1 << 1;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
/// What is found is protected.
const PROTECT: u64 = 1 << 0;

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

/// Which pages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those that are in memory or in swap: they are protected.
    Protect,
    /// Of these, those that are still protected.
    Unwritten,
    /// Those that were written since they were protected, or were not there then: they are protected again.
    WrittenAgain,
    /// All that are in memory or in swap.
    There,
    /// All that are not protected, and what is not there as far as the kernel has tables for it. Of all requests this
    /// is the fastest: it looks at one bit of each page.
    Unprotected,
}

/// Some pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Where.
    pub range: Range<u64>,
    /// Whether they were written since they were protected, or never were protected.
    pub is_written: bool,
    /// Whether they are in swap.
    pub is_swapped: bool,
    /// Whether they are the kernel's one page of zeros.
    pub is_zero: bool,
}

/// Says what the descriptor is used for.
pub(super) fn begin(descriptor: &OwnedFd) -> Result<(), Errno> {
    let mut api = Api { api: 0xaa, features: WP_UNPOPULATED | WP_ASYNC, ioctls: 0 };
    request(descriptor, read_write(0xaa, 0x3f, size_of::<Api>()), &mut api)
}

/// Has the pages of a mapping be such that they can be protected.
pub(super) fn register(descriptor: &OwnedFd, area: &Range<u64>) -> Result<(), Errno> {
    let length = area.end.saturating_sub(area.start);
    let mut own = Register { start: area.start, length, mode: MODE_WP, ioctls: 0 };
    request(descriptor, read_write(0xaa, 0, size_of::<Register>()), &mut own)
}

/// Has a part of a mapping be as it was before [`register`]; meanwhile nothing else of the memory map goes on.
pub(super) fn unregister(descriptor: &OwnedFd, part: &Range<u64>) -> Result<(), Errno> {
    let mut part = [part.start, part.end.saturating_sub(part.start)];
    request(descriptor, read_only(0xaa, 1, size_of::<[u64; 2]>()), &mut part)
}

/// Takes the protection from some pages.
pub(super) fn release(descriptor: &OwnedFd, start: u64, length: u64) -> Result<(), Errno> {
    let mut pages = Protect { start, length, mode: 0 };
    request(descriptor, read_write(0xaa, 6, size_of::<Protect>()), &mut pages)
}

/// The pages of a piece of memory that are `wanted`.
pub(super) fn scan(
    pagemap: &File,
    wanted: Wanted,
    piece: &Range<u64>,
) -> Result<Vec<Pages>, Errno> {
    let (flags, inverted, all_of) = match wanted {
        Wanted::Protect => (PROTECT, 0, 0),
        Wanted::Unwritten => (0, WRITTEN, WRITTEN | WP_ALLOWED),
        Wanted::WrittenAgain => (PROTECT, 0, WRITTEN | WP_ALLOWED),
        Wanted::There => (0, 0, 0),
        Wanted::Unprotected => (0, 0, WRITTEN),
    };
    // What is told divides ranges.
    let (any_of, told) = match wanted {
        Wanted::There => (PRESENT | SWAPPED, WP_ALLOWED | WRITTEN | SWAPPED | ZERO),
        Wanted::Protect | Wanted::Unwritten | Wanted::WrittenAgain => {
            (PRESENT | SWAPPED, PRESENT | SWAPPED)
        }
        Wanted::Unprotected => (0, WRITTEN),
    };
    let pages = usize::try_from(piece.end.saturating_sub(piece.start) / 4096).unwrap_or(TOGETHER);
    let mut found = vec![Found::default(); pages.clamp(1, TOGETHER)];
    let (mut all, mut at) = (Vec::new(), piece.start);
    while at < piece.end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags,
            start: at,
            end: piece.end,
            found: found.as_mut_ptr() as u64,
            room: found.len() as u64,
            inverted,
            all_of,
            any_of,
            told,
            ..Scan::default()
        };
        let request = read_write(u32::from(b'f'), 16, size_of::<Scan>());
        // SAFETY: `scan` has the size that the request says; the kernel writes at most `room` elements to
        // `found`, which lives on and is not looked at meanwhile.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), request, &raw mut scan) };
        let count = usize::try_from(Errno::result(count)?).unwrap_or(0);
        all.extend(found.iter().take(count).map(|found| Pages {
            range: found.start..found.end,
            is_written: found.categories & (WP_ALLOWED | WRITTEN) != WP_ALLOWED,
            is_swapped: found.categories & SWAPPED != 0,
            is_zero: found.categories & ZERO != 0,
        }));
        if scan.walk_end <= at {
            break;
        }
        at = scan.walk_end;
    }
    Ok(once(all))
}

/// Each page once, ascending: where there are more than 512 ranges kernels (6.18) tell some of them twice.
fn once(mut all: Vec<Pages>) -> Vec<Pages> {
    all.sort_by_key(|pages| pages.range.start);
    let mut end = 0;
    all.retain_mut(|pages| {
        pages.range.start = pages.range.start.max(end);
        end = end.max(pages.range.end);
        pages.range.start < pages.range.end
    });
    all
}

/// The number of a request that reads and writes so many bytes.
#[allow(clippy::cast_possible_truncation, reason = "some dozens of bytes")]
const fn read_write(kind: u32, number: u32, length: usize) -> libc::Ioctl {
    (3 << 30 | (length as u32) << 16 | kind << 8 | number) as libc::Ioctl
}

/// The same of one that reads them only.
#[allow(clippy::cast_possible_truncation, reason = "some dozens of bytes")]
const fn read_only(kind: u32, number: u32, length: usize) -> libc::Ioctl {
    (2 << 30 | (length as u32) << 16 | kind << 8 | number) as libc::Ioctl
}

fn request<T>(descriptor: &OwnedFd, request: libc::Ioctl, own: &mut T) -> Result<(), Errno> {
    // SAFETY: the request says the size of `own`, which the kernel reads and writes until the call returns.
    Errno::result(unsafe { libc::ioctl(descriptor.as_raw_fd(), request, &raw mut *own) }).map(drop)
}

/// One of this process, for tests.
#[cfg(test)]
pub(super) fn own_descriptor() -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: no pointers are passed.
    let number = unsafe { libc::syscall(libc::SYS_userfaultfd, super::FLAGS) };
    let number = i32::try_from(Errno::result(number).ok()?).ok()?;
    // SAFETY: the kernel just made this descriptor for us, and we wrap it once.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_twice_counts_once() {
        let pages = |range: Range<u64>| Pages {
            range,
            is_written: false,
            is_swapped: false,
            is_zero: false,
        };
        let told = [0..4, 6..8, 2..4, 6..8, 8..10, 7..12].map(pages).to_vec();
        assert_eq!(once(told), [0..4, 6..8, 8..12].map(pages));
    }
}
