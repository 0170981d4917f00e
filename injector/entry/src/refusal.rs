//! Why a function is left to the slots.

use heapattach_process::addr::ImageAddr;

/// Why a function cannot be hooked at its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No unwind table and no symbol says how far the function reaches.
    #[error("nothing says where the function ends")]
    NoExtent,
    /// The address lies inside another function, whose code may run into it.
    #[error("the function begins inside another, at {:#x}", .0.get())]
    NotAtStart(ImageAddr),
    /// Less than five bytes before its end.
    #[error("the function has no room for a jump")]
    TooShort,
    /// Bytes that are no instruction, or none that is known.
    #[error("no instruction can be decoded at {:#x}", .0.get())]
    Undecodable(ImageAddr),
    /// A call, a trap or the like, whose own address is visible to others.
    #[error("the instruction at {:#x} cannot be moved", .0.get())]
    Immovable(ImageAddr),
    /// Control leaves for good before there is room.
    #[error("the code ends at {:#x}, before there is room for a jump", .0.get())]
    EndsEarly(ImageAddr),
    /// A branch, a jump table or another function leads between the first byte and the last.
    #[error("what lies at {:#x} leads into the first instructions", .0.get())]
    EnteredInside(ImageAddr),
    /// A two-byte branch of the allocator itself to the entry, which cannot lead past the hook.
    #[error("the short branch at {:#x} cannot be made to bypass the hook", .0.get())]
    ShortBranch(ImageAddr),
    /// A way through the function that leaves some of the caller's flags as they are, or reads them.
    #[error("the instruction at {:#x} may still need the caller's flags", .0.get())]
    KeepsFlags(ImageAddr),
    /// The code near by is too large to be looked at.
    #[error("the function is too large to be analysed")]
    TooLarge,
}
