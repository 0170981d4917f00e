//! One call, one instruction at a time, with something else put between two of them.
//!
//! # Safety
//! The trap flag makes the processor stop after each instruction; the handler of SIGTRAP runs
//! with it cleared and touches only plain thread-local memory and what it was given.
#![allow(unsafe_code)]

use std::{arch::asm, cell::Cell, ffi::c_void, ops::Range, ptr, sync::Once};

use crate::originals::Call;

#[derive(Clone, Copy)]
struct Plan {
    start: u64,
    end: u64,
    steps: u32,
    at: u32,
    run: fn(*const ()),
    data: *const (),
}

thread_local! {
    static PLAN: Cell<Plan> =
        const { Cell::new(Plan { start: 0, end: 0, steps: 0, at: 0, run: |_| (), data: ptr::null() }) };
}

/// Calls `call` and, before its instruction number `at` inside `code`, also `between`. Returns
/// whether it got there.
pub fn interrupt<F: Fn()>(
    call: Call,
    args: [u64; 4],
    code: &Range<u64>,
    at: u32,
    between: &F,
) -> bool {
    let run = |data: *const ()| {
        // SAFETY: the closure outlives the call below, and nobody runs it afterwards.
        let between = unsafe { &*data.cast::<F>() };
        between();
    };
    step(
        call,
        args,
        Plan {
            start: code.start,
            end: code.end,
            steps: 0,
            at,
            run,
            data: ptr::from_ref(between).cast(),
        },
    ) > at
}

/// How many instructions of a call lie in `code`.
pub fn count(call: Call, args: [u64; 4], code: &Range<u64>) -> u32 {
    let (start, end) = (code.start, code.end);
    step(call, args, Plan { start, end, steps: 0, at: u32::MAX, run: |_| (), data: ptr::null() })
}

fn step(call: Call, args: [u64; 4], plan: Plan) -> u32 {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    PLAN.set(plan);
    // SAFETY: a C call with the trap flag set around it; the stack is aligned at the start of a
    // block and again after the pair of push and pop.
    unsafe {
        asm!(
            "pushfq", "or qword ptr [rsp], 0x100", "popfq",
            "call {call}",
            "pushfq", "and qword ptr [rsp], -0x101", "popfq",
            call = in(reg) call,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("rcx") args[3],
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
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let rip = context.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned();
    let mut plan = PLAN.get();
    if !(plan.start..plan.end).contains(&rip) {
        return;
    }
    plan.steps += 1;
    PLAN.set(plan);
    if plan.steps > plan.at {
        (plan.run)(plan.data);
        // The rest needs no steps.
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
    }
}
