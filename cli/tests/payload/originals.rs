//! What the hooks lead to: functions that answer like an allocator and touch nothing.
//!
//! # Safety
//! One of them writes where it is told to, as `posix_memalign` does.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A hooked function, or a hook.
pub type Call = extern "C" fn(u64, u64, u64, u64) -> u64;

/// Bytes between two blocks.
pub const STRIDE: u64 = 64;

static NEXT: AtomicU64 = AtomicU64::new(0x7000_0000_0000);

/// Tells that it was reached.
pub extern "C" fn sum(a: u64, b: u64, c: u64, _: u64) -> u64 {
    a.wrapping_add(b).wrapping_add(c)
}

/// A block with an address that was never used before.
pub extern "C" fn allocate(_: u64, _: u64, _: u64, _: u64) -> u64 {
    NEXT.fetch_add(STRIDE, Relaxed)
}

/// The same through the first argument.
pub extern "C" fn allocate_into(place: u64, _: u64, _: u64, _: u64) -> u64 {
    let place: *mut u64 = std::ptr::with_exposed_provenance_mut(index(place));
    // SAFETY: the tests pass the address of a variable.
    unsafe { place.write_volatile(NEXT.fetch_add(STRIDE, Relaxed)) };
    0
}

/// Null, or success.
pub extern "C" fn zero(_: u64, _: u64, _: u64, _: u64) -> u64 {
    0
}

/// An error of a system call.
pub extern "C" fn no_memory(_: u64, _: u64, _: u64, _: u64) -> u64 {
    12_u64.wrapping_neg()
}

/// A word as an index or a pointer: a `u64` always fits.
pub fn index(word: u64) -> usize {
    usize::try_from(word).expect("64 bits")
}

/// Where a function is.
pub fn address(function: Call) -> u64 {
    function as usize as u64
}

/// Calls as often.
pub fn repeat(times: u64, mut call: impl FnMut() -> u64) {
    for _ in 0..times {
        call();
    }
}
