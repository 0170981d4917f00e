//! Memory of this process that it does not use any more: what reading files and arguments took is much more than
//! watching does, and a session may go on for days.
//!
//! # Safety
//! Calls of the C library that take numbers, and one of the kernel's for a part of our own stack that no call uses.
#![allow(unsafe_code)]

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// Below what is used now, room for what the call that returns the rest takes.
const MARGIN: usize = 16 << 10;

/// Returns what is free to the system, where the C library has a call for that.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    let _ = unsafe { libc::malloc_trim(0) };
    trim_stack();
}

/// Has all threads allocate from one heap, where the C library would give each its own: of a session that has few
/// threads, which do little, most of these would be free and never returned.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator's, before there is a second thread.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// What the calls of an attach wrote to the stack of the first thread stays resident behind them.
fn trim_stack() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mark = 0_u8;
    let used = std::ptr::from_ref(&mark).addr();
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| size.try_into().ok());
    let Some((start, length)) = unused(&maps, used, page.unwrap_or(4096)) else { return };
    // SAFETY: these are whole pages of this thread's stack, all of them below every frame and its red zone, and
    // what is called later writes to them before it reads. No signal handler of ours runs.
    let _ = unsafe {
        libc::madvise(std::ptr::with_exposed_provenance_mut(start), length, libc::MADV_DONTNEED)
    };
}

/// Whole pages of the first thread's stack below what is used of it; `None` if that is another thread's.
fn unused(maps: &str, used: usize, page: usize) -> Option<(usize, usize)> {
    let line = maps.lines().find(|line| line.ends_with("[stack]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    let until = used.checked_sub(MARGIN)? / page * page;
    ((start..end).contains(&used) && until > start).then(|| (start, until - start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_the_frames_of_the_first_thread_is_returned() {
        let maps = "10000-20000 rw-p 0 0:0 0   [heap]\n100000-200000 rw-p 0 0:0 0   [stack]\n";
        assert_eq!(unused(maps, 0x18_0010, 4096), Some((0x10_0000, 0x7_c000)));
        assert_eq!(unused(maps, 0x10_1000, 4096), None, "nothing is left below");
        assert_eq!(unused(maps, 0x1_8000, 4096), None, "the stack of another thread");
        assert_eq!(unused("", 0x18_0000, 4096), None);
    }

    #[test]
    fn this_thread_goes_on() {
        trim();
        let deep = [7_u8; 64 << 10];
        assert!(std::hint::black_box(deep).iter().all(|byte| *byte == 7));
    }
}
