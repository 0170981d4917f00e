//! System calls on processes, most by their descriptors, that nix does not wrap yet.
//!
//! # Safety
//! Each call passes numbers only, or a buffer that outlives it; a descriptor that the kernel
//! returns is new and not owned by other code.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

/// `pidfd_open(2)`.
///
/// # Errors
/// What the kernel says; `ENOSYS` below Linux 5.3.
pub fn open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers are passed.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    owned(number)
}

/// `pidfd_getfd(2)`: a copy of the descriptor `number` of that process.
///
/// # Errors
/// What the kernel says; `ENOSYS` below Linux 5.6.
pub fn take(process: BorrowedFd<'_>, number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers are passed.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    owned(number)
}

/// Whether a thread is one of this process, if we may send it anything; nothing is sent.
pub(super) fn has_thread(pid: i32, tid: i32) -> bool {
    // SAFETY: no pointers are passed.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    sent == 0
}

fn owned(number: libc::c_long) -> Result<OwnedFd, Errno> {
    let number = i32::try_from(Errno::result(number)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just made this descriptor for us, and we wrap it once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// How a process ended, as wait(2) encodes it; known even for processes that are not our children.
///
/// # Errors
/// `ENOTTY` or `EINVAL` below Linux 6.15; `ENODATA` while it still runs.
pub fn exit_status(process: BorrowedFd<'_>) -> Result<i32, Errno> {
    /// `struct pidfd_info` of linux/pidfd.h.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroupid: u64,
        ids: [u32; 11],
        exit_code: i32,
        coredump: [u32; 4],
    }
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    #[allow(clippy::cast_possible_truncation, reason = "some dozens of bytes")]
    const LENGTH: u32 = size_of::<Info>() as u32;
    // _IOWR(0xFF, 11, struct pidfd_info)
    const PIDFD_GET_INFO: u32 = 3 << 30 | LENGTH << 16 | 0xff << 8 | 11;
    let mut info = Info { mask: PIDFD_INFO_EXIT, ..Info::default() };
    // SAFETY: the kernel writes at most the size coded into the request, that of `info`.
    let result =
        unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO as libc::Ioctl, &raw mut info) };
    Errno::result(result)?;
    if info.mask & PIDFD_INFO_EXIT == 0 { Err(Errno::ENODATA) } else { Ok(info.exit_code) }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd, process::Command};

    use super::*;

    #[test]
    fn a_process_that_ended_tells_how() {
        for (script, status) in [("exit 3", 3 << 8), ("exit 0", 0), ("kill -KILL $$", 9)] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let process = open(child.id().cast_signed()).unwrap();
            child.wait().unwrap();
            match exit_status(process.as_fd()) {
                Ok(told) => assert_eq!(told, status, "{script}"),
                // What a kernel before 6.15 says, which does not know.
                Err(errno) => assert!([Errno::ENOTTY, Errno::EINVAL].contains(&errno), "{errno}"),
            }
        }
    }
}
