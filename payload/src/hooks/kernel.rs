//! Calls by which a program asks the kernel for memory, or frees some, without a mapping of its own: brk,
//! sbrk, madvise. They are recorded after the original, with their stack, if the kernel did what they ask.
//!
//! They neither hold blocks nor are parts of calls that do: what an allocator asks for in the middle of a
//! `malloc` is recorded all the same.

use heapattach_abi::{
    form::{Asks, Form},
    kind::HookKind,
    region,
    ring::Kind,
};

use crate::{
    cells::Cells,
    frame::{ASKS, Frame},
    proven_pages,
};

const MAP_FIXED: u64 = 16;
const MREMAP_FIXED: u64 = 2;
const PROT_READ: u64 = 1;
const MADV_GUARD_INSTALL: u64 = 102;

/// Before the original: whether this is such a call.
#[inline(always)]
pub(super) fn begin(frame: &mut Frame, cells: &Cells) -> bool {
    let is_one = frame.kind() == Some(HookKind::Chosen)
        && matches!(
            Form::unpack(cells.second(frame.hook())).asks,
            Asks::Break | Asks::MoreBreak | Asks::Advice | Asks::Rights
        );
    if is_one {
        frame.arguments = [frame.rdi, frame.rsi, frame.rdx];
        frame.begun = ASKS;
    }
    is_one
}

/// The pages that may be gone, or not to be read, after this call, if there are any.
#[inline(never)]
pub(super) fn takes_pages(frame: &mut Frame, cells: &Cells) -> Option<(u64, u64)> {
    let (at, length, rights) = (frame.rdi, frame.rsi, frame.rdx);
    let end = at.saturating_add(length);
    let goes = match frame.kind() {
        Some(HookKind::Unmap) => true,
        Some(HookKind::Remap) if frame.rcx & MREMAP_FIXED != 0 => {
            // Those that it moves, those that were where it moves them to, and all between.
            return Some((at.min(frame.r8), end.max(frame.r8.saturating_add(rights))));
        }
        Some(HookKind::Remap) => true,
        Some(HookKind::Map) => frame.rcx & MAP_FIXED != 0,
        Some(HookKind::Chosen) => match Form::unpack(cells.second(frame.hook())).asks {
            Asks::Break => {
                let last = cells.region().at(region::LAST_BREAK);
                let end = if last.get() == 0 { region::ADDRESS_END } else { last.get() };
                frame.gone = end;
                last.set(at);
                return (at < end).then_some((at, end));
            }
            Asks::Advice => rights == MADV_GUARD_INSTALL,
            Asks::Rights => rights & PROT_READ == 0,
            // sbrk asks brk.
            Asks::MoreBreak | Asks::Nothing | Asks::Told => false,
        },
        _ => false,
    };
    goes.then_some((at, end))
}

/// After it: what it did, with an address and a size.
#[inline(never)]
pub(super) fn done(frame: &Frame, cells: &Cells) -> (Kind, u64, u64) {
    let [first, length, advice] = frame.arguments;
    match Form::unpack(cells.second(frame.hook())).asks {
        // Of nothing at all, both only tell where the end is.
        Asks::Break if frame.rax as u32 == 0 && first != 0 => {
            cells.region().at(region::LAST_BREAK).set(first);
            (Kind::Broke, first, 0)
        }
        Asks::MoreBreak if frame.rax != u64::MAX && first != 0 => {
            (Kind::Broke, frame.rax.wrapping_add(first), 0)
        }
        Asks::Advice if frame.rax as u32 == 0 && frees(advice) => (Kind::Discarded, first, length),
        _ => (Kind::Nothing, 0, 0),
    }
}

/// Whether what sbrk did was told by brk, which it asked; where that is not hooked, it was not.
pub(super) fn is_told(frame: &Frame, cells: &Cells, end: u64) -> bool {
    Form::unpack(cells.second(frame.hook())).asks == Asks::MoreBreak
        && cells.region().at(region::LAST_BREAK).get() == end
}

/// After it: notes the pages that may be there since, or may be read.
pub(super) fn gave_pages(frame: &Frame, cells: &Cells) {
    let [first, length, _] = frame.arguments;
    match Form::unpack(cells.second(frame.hook())).asks {
        Asks::Break => proven_pages::came(cells, frame.gone.min(first), first),
        Asks::Rights => proven_pages::came(cells, first, first.saturating_add(length)),
        _ => {}
    }
}

/// Whether that is said of pages that may be freed: MADV_DONTNEED, MADV_FREE, MADV_REMOVE,
/// MADV_DONTNEED_LOCKED.
fn frees(advice: u64) -> bool {
    matches!(advice, 4 | 8 | 9 | 24)
}
