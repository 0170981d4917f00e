//! Calls by which a program asks the kernel for memory, or frees some, without a mapping of its own: brk,
//! sbrk, madvise. They are recorded after the original, with their stack, if the kernel did what they ask.
//!
//! They neither hold blocks nor are parts of calls that do: what an allocator asks for in the middle of a
//! `malloc` is recorded all the same.

use heapattach_abi::{
    form::{Asks, Form},
    kind::HookKind,
    ring::Kind,
};

use crate::{cells::Cells, frame::Frame};

/// What the frame says of such a call.
pub(super) const ASKS: u64 = 256;

/// Before the original: whether this is such a call.
#[inline(always)]
pub(super) fn begin(frame: &mut Frame, cells: &Cells) -> bool {
    let is_one = frame.kind() == Some(HookKind::Chosen)
        && matches!(
            Form::unpack(cells.second(frame.hook())).asks,
            Asks::Break | Asks::MoreBreak | Asks::Advice
        );
    if is_one {
        frame.arguments = [frame.rdi, frame.rsi, frame.rdx];
        frame.begun = ASKS;
    }
    is_one
}

/// After it: what it did, with an address and a size.
#[inline(never)]
pub(super) fn done(frame: &Frame, cells: &Cells) -> (Kind, u64, u64) {
    let [first, length, advice] = frame.arguments;
    match Form::unpack(cells.second(frame.hook())).asks {
        // Of nothing at all, both only tell where the end is.
        Asks::Break if frame.rax as u32 == 0 && first != 0 => (Kind::Broke, first, 0),
        Asks::MoreBreak if frame.rax != u64::MAX && first != 0 => {
            (Kind::Broke, frame.rax.wrapping_add(first), 0)
        }
        Asks::Advice if frame.rax as u32 == 0 && frees(advice) => (Kind::Discarded, first, length),
        _ => (Kind::Nothing, 0, 0),
    }
}

/// Whether that is said of pages that may be freed: MADV_DONTNEED, MADV_FREE, MADV_REMOVE,
/// MADV_DONTNEED_LOCKED.
fn frees(advice: u64) -> bool {
    matches!(advice, 4 | 8 | 9 | 24)
}
