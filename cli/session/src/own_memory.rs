//! Memory of this process that it does not use any more: what reading files and arguments took is much more than
//! watching does, and a session may go on for days.
//!
//! # Safety
//! One call of the C library that takes a number, and no pointer.
#![allow(unsafe_code)]

/// Returns what is free to the system, where the C library has a call for that.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    let _ = unsafe { libc::malloc_trim(0) };
}
