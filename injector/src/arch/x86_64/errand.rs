//! The code by which a thread of the target runs an errand: in `errand.s`, assembled into this
//! program and copied from there into a home. It is position independent and never run here.
//!
//! # Safety
//! Two symbols of the assembly are taken as the bounds of read-only bytes.
#![allow(unsafe_code)]

use std::{arch::global_asm, slice};

use super::{
    processor::cpuid,
    rescue_frame::{TILES, vector_state_size},
};
use crate::arch::errand_words::{self as block, State};

global_asm!(
    ".pushsection .rodata.heapattach_errand, \"a\", @progbits",
    include_str!("errand.s"),
    ".popsection",
    BLOCK = const block::AT,
    STATE = const block::STATE,
    STACK = const block::STACK,
    THREAD = const block::THREAD,
    PATIENCE = const block::PATIENCE,
    FUNCTION = const block::FUNCTION,
    ARGUMENTS = const block::ARGUMENTS,
    DESCRIPTOR = const block::DESCRIPTOR,
    RESULT = const block::RESULT,
    ERROR = const block::ERROR,
    ERRNO = const block::ERRNO,
    OLD_ERRNO = const block::OLD_ERRNO,
    VECTOR_BYTES = const block::VECTOR_BYTES,
    VECTORS = const block::VECTORS,
    BLOCKED = const block::BLOCKED,
    MASK = const block::MASK,
    MESSAGE = const block::MESSAGE,
    MESSAGE_BYTES = const block::MESSAGE_BYTES,
    WANTED = const State::Wanted as u32,
    CLAIMED = const State::Claimed as u32,
    PARKED = const State::Parked as u32,
    GRANTED = const State::Granted as u32,
    RUNNING = const State::Running as u32,
    DONE = const State::Done as u32,
    SIGPROCMASK = const libc::SYS_rt_sigprocmask,
    CLOSE = const libc::SYS_close,
);

unsafe extern "C" {
    static heapattach_errand: u8;
    static heapattach_errand_end: u8;
}

/// The registers that calls keep, as a thread that waits for an answer has put them on its stack:
/// words above its stack pointer.
#[derive(Clone, Copy, Debug)]
pub struct Parked {
    /// Of rbx, rbp, r12, r13, r14, r15.
    pub kept: [usize; 6],
    /// Where the stack pointer was at the function's entry, in bytes above.
    pub entry: u64,
}

/// See [`Parked`].
pub const PARKED: Parked = Parked { kept: [5, 6, 4, 3, 2, 1], entry: 176 };

/// The code of the errand.
pub fn errand_code() -> &'static [u8] {
    let (start, end) = (&raw const heapattach_errand, &raw const heapattach_errand_end);
    let length = end.addr() - start.addr();
    // SAFETY: both are labels of one read-only section, the second behind the first, and what lies
    // between them is the code.
    unsafe { slice::from_raw_parts(start, length) }
}

/// What stands in place of a hook: the way to the errand. All places are offsets in one image.
pub fn gate(at: usize, original: usize, control: usize, errand: usize) -> Option<Vec<u8>> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const KEEP_R10: [u8; 5] = [0x4c, 0x89, 0x54, 0x24, 0xe8];
    const KEEP_R11: [u8; 5] = [0x4c, 0x89, 0x5c, 0x24, 0xe0];
    const LEA_R11: [u8; 3] = [0x4c, 0x8d, 0x1d];
    const LOAD_R10: [u8; 3] = [0x4c, 0x8b, 0x15];
    const JUMP: [u8; 1] = [0xe9];
    let mut code = [&ENDBR64[..], &KEEP_R10, &KEEP_R11].concat();
    for (instruction, to) in [(&LEA_R11[..], original), (&LOAD_R10, control), (&JUMP, errand)] {
        code.extend(instruction);
        let next = i32::try_from(at + code.len() + 4).ok()?;
        code.extend((i32::try_from(to).ok()? - next).to_le_bytes());
    }
    Some(code)
}

/// How much room the vector state takes, and which parts of it to save; none where the processor
/// knows only the oldest way. Tile registers and protection keys are left alone: no loader touches
/// them.
pub fn vector_room() -> (u64, u64) {
    const STATE_LEAF: u32 = 0xd;
    const OSXSAVE: u32 = 1 << 27;
    const PROTECTION_KEYS: u64 = 1 << 9;
    const LEGACY: u64 = 512;
    if cpuid(1, 0).ecx & OSXSAVE == 0 {
        return (LEGACY, 0);
    }
    let leaf = cpuid(STATE_LEAF, 0);
    let known = u64::from(leaf.eax) | u64::from(leaf.edx) << 32;
    let parts = known & !TILES & !PROTECTION_KEYS;
    ((vector_state_size(parts) as u64).next_multiple_of(64), parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_leads_to_the_errand_by_way_of_its_cells() {
        let code = gate(0x100, 0x800, 0x400, 0x1000).unwrap();
        let distance = |at: usize| i32::from_le_bytes(*code[at..].first_chunk().unwrap());
        assert_eq!(distance(17) + 0x100 + 21, 0x800);
        assert_eq!(distance(24) + 0x100 + 28, 0x400);
        assert_eq!(distance(29) + 0x100 + 33, 0x1000);
        assert_eq!(code.len(), 33);
        assert_eq!(gate(usize::MAX / 2, 0, 0, 0), None);
    }

    #[test]
    fn the_errand_is_code_that_ends_with_a_jump_back() {
        let code = errand_code();
        assert!((200..1000).contains(&code.len()), "{}", code.len());
        // cmp dword ptr [r10 + ...], 1
        assert_eq!(code[..3], [0x41, 0x83, 0xba]);
    }

    #[test]
    fn the_vector_state_has_room_for_its_oldest_part() {
        let (bytes, parts) = vector_room();
        assert!(bytes >= 512 && bytes.is_multiple_of(64), "{bytes}");
        assert!(parts == 0 || parts & 3 == 3, "{parts:#x}");
    }
}
