//! Memory that is seen at two places: written at one, executed at the other.
//!
//! # Safety
//! Both views are shared mappings of one file that lives as long as they do. All access goes
//! through raw pointers to integers; the payload writes the same memory meanwhile.
#![allow(unsafe_code)]

use std::{ffi::c_void, io, os::fd::AsRawFd as _, ptr};

/// Two views of the same bytes; never unmapped, for hooked code may stand in them till the end.
pub struct Mapped {
    writable: *mut u8,
    /// Where the bytes are to be used: executable or not, as asked for.
    pub address: u64,
    len: usize,
}

// SAFETY: every access is a single volatile or atomic one of an aligned word.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// `len` zero bytes; `protection` is that of the view to be used.
    pub fn new(len: usize, protection: i32) -> Self {
        use std::os::fd::{FromRawFd as _, OwnedFd};
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"payload test".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just made, and nobody else's.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(len as u64).unwrap();
        let view = |protection| {
            // SAFETY: a new mapping, at a place of the kernel's choice.
            let view = unsafe {
                libc::mmap(
                    ptr::null_mut::<c_void>(),
                    len,
                    protection,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                )
            };
            assert!(view != libc::MAP_FAILED, "{}", io::Error::last_os_error());
            view.cast::<u8>()
        };
        let address = view(protection).addr() as u64;
        Self { writable: view(libc::PROT_READ | libc::PROT_WRITE), address, len }
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
}
