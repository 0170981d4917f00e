//! The words at the end of our section that the injector fills in, and what they lead to.
//!
//! # Safety
//! The injector fills them before any hook can be reached, with addresses of what the contract
//! says; unfilled, `control` is null and so is asked first.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering;

use heapattach_abi::{control, kind::MAX_HOOKS, region};

use crate::{arch, shared_word::Place};

/// The cells.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Cells {
    control: u64,
    index: u64,
    filter: u64,
    /// How far before the cells a call of the slow path returns to.
    returns: u64,
    unused: [u64; 4],
    originals: [u64; MAX_HOOKS],
    seconds: [u64; MAX_HOOKS],
    #[cfg(heapattach_flow)]
    sizers: [u64; MAX_HOOKS],
    #[cfg(heapattach_flow)]
    owners: [u64; MAX_HOOKS],
}

impl Cells {
    /// Where a hook goes on.
    pub(crate) fn original(&self, hook: usize) -> u64 {
        match self.originals.get(hook) {
            Some(original) => *original,
            // No hook has such a number.
            None => 0,
        }
    }

    /// What a hook needs besides ([`heapattach_abi::image::Image::second_cells`]).
    pub(crate) fn second(&self, hook: usize) -> u64 {
        match self.seconds.get(hook) {
            Some(second) => *second,
            None => 0,
        }
    }

    /// What tells how large a block of this hook's is, and whether it is its allocator's; 0: nothing
    /// does ([`heapattach_abi::image::Image::size_cells`]).
    #[cfg(heapattach_flow)]
    pub(crate) fn sizer(&self, hook: usize) -> (u64, u64) {
        match (self.sizers.get(hook), self.owners.get(hook)) {
            (Some(sizer), Some(owner)) => (*sizer, *owner),
            // No hook has such a number.
            _ => (0, 0),
        }
    }

    /// Only the build that counts blocks by size has these cells.
    #[cfg(not(heapattach_flow))]
    #[allow(clippy::unused_self, reason = "as the other build has it")]
    pub(crate) fn sizer(&self, _: usize) -> (u64, u64) {
        (0, 0)
    }

    /// The control page.
    pub(crate) fn control(&self) -> Place {
        // SAFETY: the injector wrote the address of the mapped control page here before any hook ran.
        unsafe { Place::new(self.control) }
    }

    pub(crate) fn index(&self) -> Place {
        // SAFETY: the injector wrote the address of the mapped index here before any hook ran.
        unsafe { Place::new(self.index) }
    }

    pub(crate) fn filter(&self) -> Place {
        // SAFETY: the injector wrote the address of the mapped filter here before any hook ran.
        unsafe { Place::new(self.filter) }
    }

    /// The shared region. Not by the control page: a signal handler may fork in the middle of a slow
    /// path, whose rest then runs in the child too, where that page reads zero.
    pub(crate) fn region(&self) -> Place {
        // SAFETY: the filter, whose address the injector wrote here, is a part of the mapped region.
        unsafe { Place::new(self.filter.wrapping_sub(region::FILTER_AT as u64)) }
    }

    /// Whether this is still the process that the payload was put into, not a child of it.
    pub(crate) fn is_at_home(&self) -> bool {
        self.control().at(control::REGION).get() != 0
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.control().at(control::ENABLED).half().load(Ordering::Acquire) != 0
    }

    /// Whether the deadline has not been set forward for long: the reader is gone.
    pub(crate) fn is_overdue(&self) -> bool {
        let deadline = self.region().at(region::DEADLINE_TSC).get();
        deadline != 0 && arch::time_stamp() > deadline
    }

    pub(crate) fn is_by_address(&self) -> bool {
        self.looks() & control::EVERY_ADDRESS != 0
    }

    /// Whether every block freed is recorded by its address, and no call is a part of another.
    pub(crate) fn is_plainly_by_address(&self) -> bool {
        self.looks() & (control::EVERY_ADDRESS | control::NESTS) == control::EVERY_ADDRESS
    }

    /// Whether hooked functions of blocks call others.
    pub(crate) fn nests(&self) -> bool {
        self.looks() & control::NESTS != 0
    }

    /// The same of those that map and unmap.
    pub(crate) fn nests_maps(&self) -> bool {
        self.looks() & control::NESTS_MAPS != 0
    }

    fn looks(&self) -> u32 {
        self.control().at(control::BY_ADDRESS).half().load(Ordering::Relaxed)
    }

    /// Where the original returns to, if the slow path has called it: no other code has a frame there.
    pub(crate) fn own_return(&self) -> u64 {
        (core::ptr::from_ref(self).addr() as u64).wrapping_sub(self.returns)
    }
}
