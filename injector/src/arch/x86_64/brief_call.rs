//! A ptrace request of ours that a signal can end. The kernel begins a request anew that a signal interrupts
//! while it waits for an exec; so the handler has it step over the system call instead.
//!
//! # Safety
//! One symbol of the assembly is taken as an address, and one is called as the function that it is. The
//! handler changes the registers of the thread that it interrupts only where that is at the one system
//! call of that function, to what they are when the call has failed.
#![allow(unsafe_code)]

use std::{
    arch::global_asm,
    ffi::{c_int, c_void},
};

use nix::errno::Errno;

global_asm!(
    ".pushsection .text.heapattach_brief_call, \"ax\", @progbits",
    ".hidden heapattach_brief_ptrace",
    ".hidden heapattach_brief_syscall",
    ".globl heapattach_brief_ptrace",
    ".globl heapattach_brief_syscall",
    "heapattach_brief_ptrace:",
    ".cfi_startproc",
    "mov r10, rcx",
    "mov eax, {PTRACE}",
    "heapattach_brief_syscall:",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".popsection",
    PTRACE = const libc::SYS_ptrace,
);

/// The bytes of `syscall`.
const SYSCALL: i64 = 2;

unsafe extern "C" {
    fn heapattach_brief_ptrace(request: i64, tid: i64, address: i64, data: i64) -> i64;
    static heapattach_brief_syscall: u8;
}

/// `PTRACE_SEIZE`; `EINTR` where [`end_brief_call`] was called meanwhile.
pub fn seize_briefly(tid: i32, options: i32) -> Result<(), Errno> {
    let request = i64::from(libc::PTRACE_SEIZE);
    // SAFETY: this request passes numbers only.
    let result = unsafe { heapattach_brief_ptrace(request, tid.into(), 0, options.into()) };
    match i32::try_from(-result) {
        Ok(errno @ 1..) => Err(Errno::from_raw(errno)),
        _ => Ok(()),
    }
}

/// The handler of the signal that ends the call: for `sigaction(2)`, as nothing else may call it.
pub extern "C" fn end_brief_call(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel hands a handler the registers that its thread goes on with.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let (Ok(at), Ok(result)) = (usize::try_from(libc::REG_RIP), usize::try_from(libc::REG_RAX))
    else {
        return;
    };
    if registers[at] == (&raw const heapattach_brief_syscall).addr().cast_signed() as i64 {
        registers[at] += SYSCALL;
        registers[result] = -i64::from(libc::EINTR);
    }
}
