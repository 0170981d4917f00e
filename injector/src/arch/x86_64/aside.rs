//! Standing aside: on its own stack, with nothing changed but two registers, at instructions that
//! lead into a signal frame. Signals may come meanwhile, as they cannot where the frame itself is
//! the stack: code and what lies behind it cannot be written to, and the kernel ends a process whose
//! signals have no stack.

use super::{NO_CALL, Registers, TRAP_FLAG};
use heapattach_process::addr::RemoteAddr;

/// Returns from the signal whose frame `rbp` leads to:
/// `mov %rbp, %rsp; mov $15, %eax; syscall; ud2`
pub const WAY_BACK: [u8; 12] = [0x48, 0x89, 0xec, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b];

/// The end of functions that keep a frame pointer: `leave; ret`. To the word that `rbp` leads to it
/// gives no meaning, and returns by the one behind.
pub const LEAVE_AND_RETURN: [u8; 2] = [0xc9, 0xc3];

/// Registers that stand at `place` until they are let go, and return by what lies at `leads_to`.
pub fn aside(saved: &Registers, place: RemoteAddr, leads_to: RemoteAddr) -> Registers {
    Registers {
        rip: place.get(),
        rbp: leads_to.get(),
        // Else the kernel would restart the interrupted call from here.
        orig_rax: NO_CALL,
        eflags: saved.eflags & !TRAP_FLAG,
        ..*saved
    }
}
