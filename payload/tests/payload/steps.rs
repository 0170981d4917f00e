//! One call, one instruction at a time, with something else put between two of them.
//!
//! # Safety
//! The trap flag makes the processor stop after each instruction; the handler of SIGTRAP runs
//! with it cleared and touches only plain thread-local memory.
#![allow(unsafe_code)]

use std::{arch::asm, cell::Cell, ffi::c_void, ops::Range, ptr, sync::Once};

/// A function of three words.
pub type Call = extern "C" fn(u64, u64, u64) -> u64;

#[derive(Clone, Copy)]
struct Plan {
    start: u64,
    end: u64,
    steps: u32,
    at: u32,
    between: Option<(Call, Call)>,
}

thread_local! {
    static PLAN: Cell<Plan> =
        const { Cell::new(Plan { start: 0, end: 0, steps: 0, at: 0, between: None }) };
}

/// Calls `call` and, before its instruction number `at` inside `code`, both of `between`. Returns
/// how many instructions it ran there.
pub fn interrupt(
    call: Call,
    args: [u64; 3],
    code: Range<u64>,
    at: u32,
    between: (Call, Call),
) -> u32 {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    let plan = Plan { start: code.start, end: code.end, steps: 0, at, between: Some(between) };
    PLAN.set(plan);
    // SAFETY: a C call with the trap flag set around it; the stack is aligned at the start of a
    // block and again after the pair of push and pop.
    unsafe {
        asm!(
            "pushfq", "or qword ptr [rsp], 0x100", "popfq",
            "call {call}",
            "pushfq", "and qword ptr [rsp], -0x101", "popfq",
            call = in(reg) call,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            clobber_abi("C"),
        );
    }
    PLAN.get().steps
}

fn install() {
    // SAFETY: all zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = on_trap;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler is fit for signals; SIGTRAP has no other user in this process.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()) }, 0);
}

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a `ucontext_t`.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let rip = context.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned();
    let mut plan = PLAN.get();
    if !(plan.start..plan.end).contains(&rip) {
        return;
    }
    if plan.steps == plan.at
        && let Some((first, second)) = plan.between
    {
        first(1, 1, 1);
        second(1, 1, 1);
    }
    plan.steps += 1;
    PLAN.set(plan);
}
