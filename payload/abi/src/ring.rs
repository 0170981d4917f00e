//! The rings that carry records, and the record.
//!
//! A ring is a power of two of slots. A writer takes the next position by advancing `head`, if
//! that leaves it less than a ring ahead of `tail`; it fills the slot and writes the slot's first
//! word last. That word names the position, so that a reader knows a slot that is not written yet,
//! and needs nothing but the slot itself to be sure of it. Any number of threads may write to one
//! ring; each has one of its own as long as there are enough.

use core::mem::offset_of;

/// Binary logarithm of [`RINGS`].
pub const RING_COUNT_BITS: u32 = 6;
/// Number of rings.
pub const RINGS: usize = 1 << RING_COUNT_BITS;
/// Rings below this number, but for the first, have one writer each: the row of that number. The
/// others are shared by all other rows.
pub const OWN_RINGS: usize = RINGS / 2;

/// The ring of a row.
pub const fn ring_of(row: usize) -> usize {
    if row < OWN_RINGS { row } else { OWN_RINGS + row % OWN_RINGS }
}

/// Whether only one thread writes to a ring.
pub const fn is_own(ring: usize) -> bool {
    ring != 0 && ring < OWN_RINGS
}

/// Size of the head of a ring.
pub const RING_HEAD_BYTES: usize = 128;
/// Offset in it of the next position to be written.
pub const HEAD: usize = 0;
/// Offset in it of the next position to be read; on another cache line.
pub const TAIL: usize = 64;
/// The last so many slots are kept for blocks freed: a missed one would look like a leak.
pub const RESERVE_SHIFT: u32 = 3;

/// One record.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot {
    /// Low 32 bits of its position plus 1, and the number of the stack above them.
    pub seal: u64,
    /// Address in the low 48 bits, then [`Kind`], hook, and number of the interval ([`pack`]).
    pub address: u64,
    /// Size in bytes; of a free, the stamp of the block; of a restoring, that of the announcement.
    pub size: u64,
    /// The record's number.
    pub stamp: u64,
}

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A block was allocated.
    Allocated = 1,
    /// A block is about to be freed; its stamp is known.
    FreedSample = 2,
    /// A block is about to be freed, and everything is recorded.
    Freed = 3,
    /// Pages were mapped.
    Mapped = 4,
    /// Pages are about to be unmapped.
    Unmapped = 5,
    /// What was announced did not happen.
    Restored = 6,
    /// A stamp was taken and nothing came of it.
    Nothing = 7,
    /// A block was allocated in exchange for one that was announced.
    Reallocated = 8,
    /// Pages were mapped in exchange for some that were announced.
    Remapped = 9,
    /// The heap of brk ends elsewhere: at the address.
    Broke = 10,
    /// Pages were told to be free, and stay mapped.
    Discarded = 11,
}

impl Kind {
    /// The kind with this value.
    pub const fn of(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Allocated,
            2 => Self::FreedSample,
            3 => Self::Freed,
            4 => Self::Mapped,
            5 => Self::Unmapped,
            6 => Self::Restored,
            7 => Self::Nothing,
            8 => Self::Reallocated,
            9 => Self::Remapped,
            10 => Self::Broke,
            11 => Self::Discarded,
            _ => return None,
        })
    }
}

/// Size of a slot.
pub const SLOT_BYTES: usize = size_of::<Slot>();
/// The part of [`Slot::address`] that is one.
pub const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// The seal of the slot at `position`.
pub const fn seal(position: u64, stack: u32) -> u64 {
    (position.wrapping_add(1) & 0xffff_ffff) | (stack as u64) << 32
}

/// Whether `seal` is that of the slot at `position`.
#[inline]
pub const fn is_sealed(seal: u64, position: u64) -> bool {
    seal & 0xffff_ffff == position.wrapping_add(1) & 0xffff_ffff
}

/// Intervals of one session at most.
pub const INTERVALS: usize = 1 << 6;

/// [`Slot::address`] of its parts.
pub const fn pack(address: u64, kind: Kind, hook: usize, interval_number: u8) -> u64 {
    let parts = (kind as u64) | (hook as u64 & 63) << 4 | (interval_number as u64 & 63) << 10;
    (address & ADDRESS_MASK) | parts << 48
}

/// Kind, hook and number of the interval of a [`Slot::address`].
#[inline]
pub const fn parts(packed: u64) -> (Option<Kind>, usize, usize) {
    let parts = packed >> 48;
    (Kind::of((parts & 15) as u8), (parts >> 4 & 63) as usize, (parts >> 10) as usize)
}

const _: () = assert!(SLOT_BYTES == 32);
const _: () = assert!(offset_of!(Slot, seal) == 0);
const _: () = assert!(offset_of!(Slot, address) == 8);
const _: () = assert!(offset_of!(Slot, size) == 16);
const _: () = assert!(offset_of!(Slot, stamp) == 24);
