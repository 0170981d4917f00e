//! How many instructions something of ours takes: a busy machine changes no count.
//!
//! # Safety
//! The trap flag makes the processor stop after each instruction of this thread; the handler of
//! SIGTRAP, which has no other user here, adds one and nothing else.
#![allow(unsafe_code)]

use std::{arch::asm, cell::Cell, ptr, sync::Once};

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// The instructions of this thread that `work` takes, divided by the number of things that it does,
/// which is told, and must be at most `most` in a build for tests. Hashes and addresses change from
/// run to run, and the count by some percent with them.
pub fn assert_few(name: &str, most: u64, work: impl FnOnce() -> u64) {
    let mut things = 0;
    let each = count(|| things = work()) / things;
    println!("{name}: {each} instructions, of at most {most} in a build for tests");
    assert!(each > 0 && each <= most, "{name}: {each} instructions, at most {most} are wanted");
}

/// The instructions of this thread that `work` takes.
pub fn count(work: impl FnOnce()) -> u64 {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    STEPS.set(0);
    // SAFETY: only the trap flag changes, until the next lines.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    work();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    STEPS.get()
}

fn install() {
    // SAFETY: all zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(i32) = on_trap;
    action.sa_sigaction = handler as usize;
    // SAFETY: the handler is fit for signals.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()) }, 0);
}

extern "C" fn on_trap(_: i32) {
    STEPS.set(STEPS.get() + 1);
}
