//! What ptrace requests name that only this processor has.

use std::mem::offset_of;

use heapattach_process::addr::RemoteAddr;

/// The register set that is the vector state: `NT_X86_XSTATE`, laid out as XSAVE does.
pub const VECTOR_STATE: usize = 0x202;

/// Room for any vector state, up to AMX.
pub const VECTOR_STATE_LIMIT: usize = 16 << 10;

/// What is written to `struct user`, in this order, for the thread to stop before the instruction at
/// `at`, or not any more: places, and the words for them. The first debug register has the address;
/// it is switched off while that changes.
pub fn breakpoint(at: Option<RemoteAddr>) -> impl Iterator<Item = (usize, u64)> {
    const CONTROL: usize = 7;
    const FIRST_ON_EXECUTION: u64 = 1;
    let register = |number: usize| offset_of!(libc::user, u_debugreg) + number * size_of::<u64>();
    let address = at.map_or(0, RemoteAddr::get);
    let on = at.map(|_| (register(CONTROL), FIRST_ON_EXECUTION));
    [(register(CONTROL), 0), (register(0), address)].into_iter().chain(on)
}
