//! What a record says: a slot of a ring as an event.

use std::ops::Range;

use heapattach_abi::{
    kind::HookKind,
    nest,
    ring::{self, Kind},
};

use crate::records::sequence::{PRESENT, Slot};
use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
};

/// The part of a seal that is the number of the stack. What was below it is known to be right once
/// the slot is read; the ring takes its place.
const STACK_BITS: u64 = u64::MAX << 32;

/// The hooks of what only gives back: nothing that it announces fails.
const FREES: Range<usize> =
    HookKind::Free.first_hook()..HookKind::Free.first_hook() + HookKind::Free.hooks();

/// Which call an event was part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The hook.
    pub hook: usize,
    /// Who called; of what is freed, only where everything is recorded.
    pub stack: StackId,
}

/// What slots say of the ring of this number, once they are read: 0 if it is of several threads.
pub(super) fn writer(ring: usize) -> u64 {
    if ring::is_own(ring) { ring as u64 } else { 0 }
}

/// What is kept of a slot that was read from the ring of this [`writer`].
#[inline]
pub(super) fn kept(writer: u64, [seal, packed, size, stamp]: Slot) -> Slot {
    [seal & STACK_BITS | PRESENT | writer, packed, size, stamp]
}

/// What a slot says, which names these intervals by their numbers; `None` if it is nonsense, and no
/// event if it says nothing.
#[inline]
pub(super) fn event(slot: Slot, intervals: &[u64]) -> Option<Option<(Event, Call)>> {
    let [seal, packed, size, stamp] = slot;
    let at = RemoteAddr::new(packed & ring::ADDRESS_MASK);
    let (kind, hook, interval_number) = ring::parts(packed);
    let kind = kind?;
    let stack = StackId(u32::try_from((seal & !PRESENT) >> 32).ok()?);
    let is_inner = kind == Kind::Freed && interval_number == usize::from(nest::INNER);
    let continues = is_inner || matches!(kind, Kind::Reallocated | Kind::Remapped | Kind::Restored);
    let is_final = matches!(kind, Kind::FreedSample | Kind::Freed) && FREES.contains(&hook);
    let ring = u8::try_from(seal & u64::from(u8::MAX)).ok()?;
    let origin = Origin { ring, continues, is_final };
    let what = match kind {
        Kind::Allocated | Kind::Reallocated => {
            let interval = *intervals.get(interval_number)?;
            What::Allocated { at, size, stack, interval }
        }
        Kind::FreedSample => What::Freed { at, block: Some(size) },
        Kind::Freed => What::Freed { at, block: None },
        Kind::Mapped | Kind::Remapped => What::Mapped { at, length: size, stack },
        Kind::Unmapped => What::Unmapped { at, length: size, stack },
        Kind::Broke => What::Broke { end: at, stack },
        Kind::Discarded => What::Discarded { at, length: size, stack },
        Kind::Restored => What::Restored { announced: size },
        Kind::Nothing => return Some(None),
    };
    Some(Some((Event { stamp, origin, what }, Call { hook, stack })))
}
