//! The switch of all hooks: one page, written from outside, zero in every forked child.

use core::mem::offset_of;

/// The head of the control page.
///
/// The page is private and marked `MADV_WIPEONFORK`: a child inherits the hooks, but its copy of
/// this page reads zero, so that they pass every call through from its first instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Control {
    /// 0: every hook passes its call through and counts nothing.
    pub enabled: u32,
    /// Zero.
    pub reserved: u32,
    /// The heartbeat: hooks switch themselves off when the time-stamp counter exceeds it; 0 means
    /// no limit. Must stay 0 where `rdtsc` faults (strict seccomp, `PR_SET_TSC`).
    pub deadline_tsc: u64,
    /// Set to 1 by the payload, before it clears `enabled`, when the heartbeat was stale.
    pub expired: u32,
    /// Zero.
    pub reserved_end: u32,
}

/// Offset of [`Control::enabled`].
pub const ENABLED: usize = offset_of!(Control, enabled);
/// Offset of [`Control::deadline_tsc`].
pub const DEADLINE_TSC: usize = offset_of!(Control, deadline_tsc);
/// Offset of [`Control::expired`].
pub const EXPIRED: usize = offset_of!(Control, expired);

const _: () = assert!(ENABLED == 0);
const _: () = assert!(DEADLINE_TSC == 8);
const _: () = assert!(EXPIRED == 16);
const _: () = assert!(size_of::<Control>() == 24);
