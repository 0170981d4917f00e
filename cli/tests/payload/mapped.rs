//! Memory of our own: text that is written at one place and executed at another, and plain pages.
//!
//! # Safety
//! Mappings live till the end. All access goes through raw pointers to integers; the payload
//! writes the same memory meanwhile.
#![allow(unsafe_code)]

use std::{
    ffi::c_void,
    fs::File,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr,
};

use libc::{
    MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE,
};

/// Zero bytes; never unmapped, for hooked code may stand in them till the end.
pub struct Mapped {
    writable: *mut u8,
    /// Where the bytes are to be used.
    pub address: u64,
    len: usize,
}

// SAFETY: every access is a single volatile one of an aligned word or a byte.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Two views of the same bytes, for code: to be used where it is not writable.
    pub fn text(len: usize) -> Self {
        let file = memory_file(len);
        let address = map(len, PROT_READ | PROT_EXEC, MAP_SHARED, file.as_raw_fd());
        let writable = map(len, PROT_READ | PROT_WRITE, MAP_SHARED, file.as_raw_fd());
        Self { writable, address: address.addr() as u64, len }
    }

    /// As the region: shared with every child.
    pub fn shared(len: usize) -> Self {
        let file = memory_file(len);
        Self::plain(len, map(len, PROT_READ | PROT_WRITE, MAP_SHARED, file.as_raw_fd()))
    }

    /// As the control page: private, and zero in every child.
    pub fn wiped_on_fork(len: usize) -> Self {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let start = map(len, PROT_READ | PROT_WRITE, flags, -1);
        // SAFETY: the mapping just made.
        let advised = unsafe { libc::madvise(start.cast(), len, libc::MADV_WIPEONFORK) };
        assert_eq!(advised, 0, "{}", io::Error::last_os_error());
        Self::plain(len, start)
    }

    fn plain(len: usize, start: *mut u8) -> Self {
        Self { writable: start, address: start.addr() as u64, len }
    }

    /// Writes bytes.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.len && at <= self.len - bytes.len());
        for (i, byte) in bytes.iter().enumerate() {
            let to = self.writable.wrapping_add(at + i);
            // SAFETY: inside the mapping, as asserted.
            unsafe { to.write_volatile(*byte) };
        }
    }

    /// Makes bytes zero.
    pub fn wipe(&self, at: usize, len: usize) {
        assert!(len <= self.len && at <= self.len - len);
        // SAFETY: inside the mapping, as asserted.
        unsafe { self.writable.wrapping_add(at).write_bytes(0, len) };
    }

    /// Writes a word in one store.
    pub fn set(&self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8) && at < self.len);
        let to = self.writable.wrapping_add(at).cast::<u64>();
        // SAFETY: inside the mapping and aligned, as asserted.
        unsafe { to.write_volatile(word) };
    }

    /// Reads a word in one load.
    pub fn get(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8) && at < self.len);
        let from = self.writable.wrapping_add(at).cast::<u64>();
        // SAFETY: inside the mapping and aligned, as asserted.
        unsafe { from.read_volatile() }
    }

    /// Reads a byte.
    pub fn byte(&self, at: usize) -> u8 {
        assert!(at < self.len);
        // SAFETY: inside the mapping, as asserted.
        unsafe { self.writable.wrapping_add(at).read_volatile() }
    }
}

fn memory_file(len: usize) -> File {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"payload test".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: just made, and owned by nothing else.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(len as u64).unwrap();
    file
}

fn map(len: usize, protection: i32, flags: i32, fd: i32) -> *mut u8 {
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let view = unsafe {
        libc::mmap(ptr::null_mut::<c_void>(), len, protection, flags | MAP_NORESERVE, fd, 0)
    };
    assert!(view != libc::MAP_FAILED, "{}", io::Error::last_os_error());
    view.cast()
}
