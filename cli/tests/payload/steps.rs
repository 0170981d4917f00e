//! One call, one instruction at a time, with something else put between two of them.
//!
//! # Safety
//! The trap flag makes the processor stop after each instruction, a breakpoint at one. The handler
//! of SIGTRAP runs with the flag cleared, and only where the payload was interrupted: so it may do
//! what any code may.
#![allow(unsafe_code)]

use std::{
    arch::asm,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ffi::c_void,
    ops::Range,
    ptr,
    sync::Once,
};

use crate::{originals::Call, placed::Placed};

const TRAP_FLAG: i64 = 0x100;
const INT3: u8 = 0xcc;

/// An instruction of a call: where it is, and the how manieth time it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    address: u64,
    time: u32,
}

impl Stop {
    /// The address of the instruction.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Whether its instruction was not executed often before: the turns of a loop are alike.
    pub fn is_early(&self) -> bool {
        self.time <= 3
    }
}

/// A breakpoint.
struct Break {
    placed: *const Placed,
    stop: Stop,
    original: u8,
    seen: u32,
    run: fn(*const ()),
    data: *const (),
}

thread_local! {
    static TRACE: RefCell<Option<(Range<u64>, Vec<u64>)>> = const { RefCell::new(None) };
    static BREAK: RefCell<Option<Break>> = const { RefCell::new(None) };
    static STEPS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call and tells the instructions of the payload it went through, in turn.
pub fn trace(placed: &Placed, call: Call, args: [u64; 4]) -> Vec<Stop> {
    TRACE.set(Some((placed.code(), Vec::new())));
    run(call, args, true);
    let (_, addresses) = TRACE.take().expect("set above");
    let mut times = BTreeMap::new();
    let stop = |address| {
        let time = times.entry(address).and_modify(|time| *time += 1).or_insert(1);
        Stop { address, time: *time }
    };
    addresses.into_iter().map(stop).collect()
}

/// Runs a call and, just before one of its instructions, also `between`. Tells whether it got there.
pub fn interrupt<F: Fn()>(
    placed: &Placed,
    call: Call,
    args: [u64; 4],
    stop: Stop,
    between: &F,
) -> bool {
    let run_it = |data: *const ()| {
        // SAFETY: the closure outlives the call below, and it is not run afterwards.
        let between = unsafe { &*data.cast::<F>() };
        between();
    };
    let original = placed.patch(stop.address, INT3);
    let data = ptr::from_ref(between).cast();
    BREAK.set(Some(Break { placed, stop, original, seen: 0, run: run_it, data }));
    run(call, args, false);
    // Gone when it was reached.
    let left = BREAK.take();
    placed.patch(stop.address, original);
    left.is_none()
}

fn run(call: Call, args: [u64; 4], traced: bool) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    let flag = if traced { TRAP_FLAG } else { 0 };
    // SAFETY: a C call, perhaps with the trap flag set around it; the stack is aligned at the start
    // of a block and again after the pair of push and pop.
    unsafe {
        asm!(
            "pushfq", "or [rsp], {flag}", "popfq",
            "call {call}",
            "pushfq", "and qword ptr [rsp], -0x101", "popfq",
            call = in(reg) call,
            flag = in(reg) flag,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("rcx") args[3],
            clobber_abi("C"),
        );
    }
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
    let registers = &mut context.uc_mcontext.gregs;
    let rip = registers[libc::REG_RIP as usize].cast_unsigned();
    TRACE.with_borrow_mut(|trace| {
        if let Some((code, addresses)) = trace
            && code.contains(&rip)
        {
            addresses.push(rip);
        }
    });
    let Some(mut here) = BREAK.take() else { return };
    // SAFETY: it outlives the call, see `interrupt`.
    let placed = unsafe { &*here.placed };
    if STEPS.replace(false) {
        // Beyond the breakpoint: it is set again.
        placed.patch(here.stop.address, INT3);
        registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
        BREAK.set(Some(here));
        return;
    }
    assert_eq!(rip, here.stop.address + 1, "a breakpoint of somebody else");
    placed.patch(here.stop.address, here.original);
    registers[libc::REG_RIP as usize] -= 1;
    here.seen += 1;
    if here.seen == here.stop.time {
        (here.run)(here.data);
    } else {
        STEPS.set(true);
        registers[libc::REG_EFL as usize] |= TRAP_FLAG;
        BREAK.set(Some(here));
    }
}
