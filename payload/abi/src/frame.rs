//! What a hook leaves on the stack of a thread that is in its slow path, as far as a reader of that
//! stack asks for it: which call it is, and which block the call exchanges.

use crate::kind::HookKind;

/// Offset of the first argument of the call, until the original returns.
pub const RDI: usize = 24;
/// Offset of the word that says which call it is ([`exchanges`]).
pub const CALL: usize = 56;
/// Offset of the block that the call frees, once that is announced.
pub const BLOCK: usize = 80;
/// Where the program is that tells of a block ([`crate::form::Asks::Told`]): from the return address up, the
/// address of its next instruction.
pub const TOLD_CODE: usize = 8;
/// And its stack pointer.
pub const TOLD_STACK: usize = 16;

/// Whether [`CALL`] is that of a call that exchanges a block for another, or may.
pub const fn exchanges(call: u64) -> bool {
    let [hook, kind, ..] = call.to_le_bytes();
    let hook = hook as usize;
    // The reason lies in the upper half: 0 or 1.
    if call >> 33 != 0 || call >> 16 & 0xffff != 0 {
        return false;
    }
    match HookKind::of(kind) {
        Some(kind @ (HookKind::Realloc | HookKind::Chosen)) => {
            kind.first_hook() <= hook && hook < kind.first_hook() + kind.hooks()
        }
        _ => false,
    }
}
