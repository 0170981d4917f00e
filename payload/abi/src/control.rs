//! What is private to the process: the switch of all hooks, and who owns which row. Written from
//! outside, zero in every forked child.

use core::mem::offset_of;

/// The head of the control page.
///
/// The page is private and marked `MADV_WIPEONFORK`: a child inherits the hooks, but its copy of
/// this page reads zero, so that they pass every call through from its first instruction. The same
/// holds for the index of threads behind it ([`crate::index`]).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Control {
    /// 0: no thread begins to count, and nothing is recorded.
    pub enabled: u32,
    /// How calls are looked at: [`EVERY_ADDRESS`], [`NESTS`], [`NESTS_MAPS`].
    pub by_address: u32,
    /// Set to 1 by the payload, before it clears `enabled`, when the heartbeat was stale.
    pub expired: u32,
    /// Makes the random numbers of this session other ones.
    pub salt: u32,
    /// Address of the shared region ([`crate::region`]).
    pub region: u64,
    /// Binary logarithm of the slots of one ring.
    pub ring_bits: u32,
    /// How long a thread waits for room in a full ring before it drops a record, in spins; 0: not.
    pub ring_patience: u32,
    /// Frames of a stack that are recorded, at most [`crate::stacks::MAX_FRAMES`].
    pub most_frames: u32,
    /// Of so many stacks one is walked again without the help of memos, to compare; 0: none.
    pub verify: u32,
    /// 1: memory of stacks that are not known may be copied by the kernel, which is a system call.
    pub may_copy: u32,
    /// Where none of these bits is set in the number of its looks, a thread that waits for room in a
    /// full ring lets others have its processor, or sleeps, which is a system call; 0: never.
    pub yield_mask: u32,
    /// The address of a word that is another one each time the loader has loaded something; 0: there
    /// is none. If it is not [`crate::region::LOADS_SEEN`], there is code that no table knows yet.
    pub loads: u64,
    /// Where the loader's lists begin (`struct r_debug`).
    pub lists: u64,
    /// The number of the process, by which it may ask the kernel for copies of its own memory when it
    /// looks for a module; 0: it may not.
    pub look: u32,
    /// As `ring_patience`, for records of mappings: the calls that they are of take long by themselves.
    pub map_patience: u32,
}

/// In [`Control::by_address`]: every block freed is recorded by its address; the table of samples
/// is not used.
pub const EVERY_ADDRESS: u32 = 1;
/// In [`Control::by_address`]: some hooked functions call others ([`crate::nest`]), so that every call
/// takes the slow path, which tells what is a part of another.
pub const NESTS: u32 = 2;
/// In [`Control::by_address`]: the same of those that map and unmap, all of whose calls take the slow
/// path anyway.
pub const NESTS_MAPS: u32 = 4;

/// Offset of [`Control::enabled`].
pub const ENABLED: usize = offset_of!(Control, enabled);
/// Offset of [`Control::expired`].
pub const EXPIRED: usize = offset_of!(Control, expired);
/// Offset of [`Control::region`].
pub const REGION: usize = offset_of!(Control, region);
/// Offset of [`Control::ring_bits`].
pub const RING_BITS: usize = offset_of!(Control, ring_bits);
/// Offset of [`Control::ring_patience`].
pub const RING_PATIENCE: usize = offset_of!(Control, ring_patience);
/// Offset of [`Control::map_patience`].
pub const MAP_PATIENCE: usize = offset_of!(Control, map_patience);
/// Offset of [`Control::most_frames`].
pub const MOST_FRAMES: usize = offset_of!(Control, most_frames);
/// Offset of [`Control::verify`].
pub const VERIFY: usize = offset_of!(Control, verify);
/// Offset of [`Control::may_copy`].
pub const MAY_COPY: usize = offset_of!(Control, may_copy);
/// Offset of [`Control::yield_mask`].
pub const YIELD_MASK: usize = offset_of!(Control, yield_mask);
/// Offset of [`Control::salt`].
pub const SALT: usize = offset_of!(Control, salt);
/// Offset of [`Control::by_address`].
pub const BY_ADDRESS: usize = offset_of!(Control, by_address);
/// Offset of [`Control::loads`].
pub const LOADS: usize = offset_of!(Control, loads);
/// Offset of [`Control::lists`].
pub const LISTS: usize = offset_of!(Control, lists);
/// Offset of [`Control::look`].
pub const LOOK: usize = offset_of!(Control, look);
/// Room for the head; the index of threads follows.
pub const CONTROL_BYTES: usize = 4096;

const _: () = assert!(ENABLED == 0);
const _: () = assert!(BY_ADDRESS == 4);
const _: () = assert!(EXPIRED == 8);
const _: () = assert!(REGION == 16);
const _: () = assert!(RING_BITS == 24);
const _: () = assert!(LOADS == 48);
const _: () = assert!(size_of::<Control>() == 72);
