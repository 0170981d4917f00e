//! The window of an entry: the shortest run of whole instructions with room for the jump.

use crate::addr::ImageAddr;

/// The bytes the longest window can have: four of whole instructions and one more instruction.
const WINDOW_MAX: usize = 19;

/// A window cut out of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    start: ImageAddr,
    bytes: [u8; WINDOW_MAX],
    len: u8,
    /// Bytes of instructions; after a closing branch the rest is padding.
    moved: u8,
}

/// Why a function cannot be hooked at its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No unwind table and no symbol says how far the function reaches.
    #[error("nothing says where the function ends")]
    NoExtent,
    /// The address lies inside another function, whose code may run into it.
    #[error("the function begins inside another, at {0:#x}")]
    NotAtStart(u64),
    /// Less than five bytes before its end.
    #[error("the function has no room for a jump")]
    TooShort,
    /// Bytes that are no instruction, or none that is known.
    #[error("no instruction can be decoded at {0:#x}")]
    Undecodable(u64),
    /// A call, a trap or the like, whose own address is visible to others.
    #[error("the instruction at {0:#x} cannot be moved")]
    Immovable(u64),
    /// Control leaves for good before there is room.
    #[error("the code ends at {0:#x}, before there is room for a jump")]
    EndsEarly(u64),
    /// A branch, a jump table or another function leads between the first byte and the last.
    #[error("code at {0:#x} leads into the first instructions")]
    EnteredInside(u64),
    /// A two-byte branch of the allocator itself to the entry, which cannot lead past the hook.
    #[error("the short branch at {0:#x} cannot be led past the hook")]
    ShortBranch(u64),
    /// The code near by is too large to be looked at.
    #[error("the function is too large to be analysed")]
    TooLarge,
}

impl Window {
    pub(super) fn start(&self) -> ImageAddr {
        self.start
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(super) fn moved(&self) -> &[u8] {
        &self.bytes[..usize::from(self.moved)]
    }
}
