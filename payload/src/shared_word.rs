//! Words of memory that others change too.
//!
//! # Safety
//! A [`Place`] is made only of addresses that the injector wrote into our cells and control page,
//! and of offsets of the contract, which lie inside what is mapped there for as long as our code
//! is. Every access is one atomic operation on an aligned word, so that it can neither tear nor be
//! turned into vector instructions, which the target's registers would suffer from.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// An address of memory that is ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Place {
    /// # Safety
    /// Words at the offsets that are then used must be mapped, and stay so.
    pub(crate) const unsafe fn new(address: u64) -> Self {
        Self(address)
    }

    pub(crate) fn address(self) -> u64 {
        self.0
    }

    /// The place so many bytes on.
    pub(crate) fn at(self, offset: usize) -> Self {
        Self(self.0.wrapping_add(offset as u64))
    }

    /// The word here.
    pub(crate) fn word(self) -> &'static AtomicU64 {
        // SAFETY: an address of ours and an offset of the contract: mapped and aligned; it is only accessed atomically.
        unsafe { AtomicU64::from_ptr(core::ptr::with_exposed_provenance_mut(self.0 as usize)) }
    }

    pub(crate) fn half(self) -> &'static AtomicU32 {
        // SAFETY: an address of ours and an offset of the contract: mapped and aligned; accessed atomically.
        unsafe { AtomicU32::from_ptr(core::ptr::with_exposed_provenance_mut(self.0 as usize)) }
    }

    pub(crate) fn byte(self) -> &'static AtomicU8 {
        // SAFETY: an address of ours and an offset of the contract: mapped; a byte is always aligned.
        unsafe { AtomicU8::from_ptr(core::ptr::with_exposed_provenance_mut(self.0 as usize)) }
    }

    pub(crate) fn get(self) -> u64 {
        self.word().load(Ordering::Relaxed)
    }

    pub(crate) fn set(self, value: u64) {
        self.word().store(value, Ordering::Relaxed);
    }
}
