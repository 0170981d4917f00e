//! A few instructions of x86-64.
//!
//! # Safety
//! Each function says why its instructions do no harm.
#![allow(unsafe_code)]

use core::arch::asm;

use crate::shared_word::Place;

/// The thread pointer of this thread.
pub(crate) fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the first word of a thread control block is its own address, with every libc.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// Adds in one instruction, which no signal handler of this thread can come into the middle of.
pub(crate) fn add(place: Place, value: u64) {
    // SAFETY: a place is mapped and aligned.
    unsafe { asm!("add [{}], {}", in(reg) place.address(), in(reg) value, options(nostack)) }
}

/// Stores `new` if `old` is there, in one instruction, against signal handlers of this thread alone.
pub(crate) fn exchange_alone(place: Place, old: u64, new: u64) -> bool {
    let found: u64;
    // SAFETY: a place is mapped and aligned.
    unsafe {
        asm!("cmpxchg [{}], {}", in(reg) place.address(), in(reg) new,
            inout("rax") old => found, options(nostack));
    }
    found == old
}

/// The number of this process.
pub(crate) fn process() -> u64 {
    const GETPID: u64 = 39;
    let mut result = GETPID;
    // SAFETY: getpid touches no memory.
    unsafe {
        asm!("syscall", inout("rax") result, out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

/// Lets another thread that waits for this processor have it.
#[cold]
#[inline(never)]
pub(crate) fn yield_processor() {
    const SCHED_YIELD: u64 = 24;
    // SAFETY: sched_yield touches no memory.
    unsafe {
        asm!("syscall", inout("rax") SCHED_YIELD => _, out("rcx") _, out("r11") _,
            options(nostack));
    }
}

/// Lets this thread have no processor for a moment, or until a signal comes.
#[cold]
#[inline(never)]
pub(crate) fn sleep(nanoseconds: u64) {
    const NANOSLEEP: u64 = 35;
    let time = [0, nanoseconds];
    // SAFETY: nanosleep reads the two words, and writes nothing where there is no place for the rest.
    unsafe {
        asm!("syscall", inout("rax") NANOSLEEP => _, in("rdi") &raw const time, in("rsi") 0,
            out("rcx") _, out("r11") _, options(nostack));
    }
}

/// Has the kernel copy memory of a process, this one, which fails where nothing is mapped instead of
/// faulting: to where one list of so many addresses and lengths says, from where another one does.
/// Answers the number of bytes, or a negative error.
pub(crate) fn copy_memory(process: u64, to: (u64, u64), from: (u64, u64)) -> i64 {
    const PROCESS_VM_READV: i64 = 310;
    let mut result = PROCESS_VM_READV;
    // SAFETY: it writes where `to` says, which is ours, and to no register but those named.
    unsafe {
        asm!("syscall", inout("rax") result, in("rdi") process, in("rsi") to.0, in("rdx") to.1,
            in("r10") from.0, in("r8") from.1, in("r9") 0, out("rcx") _, out("r11") _,
            options(nostack));
    }
    result
}

/// A word of memory that is mapped for certain: where the original has just written to, of a stack
/// that the thread stands on ([`crate::readable::Span`]), or of a page that cannot go meanwhile
/// ([`crate::proven_pages`]).
#[inline(always)]
pub(crate) fn read(address: u64) -> u64 {
    let word;
    // SAFETY: the caller gives an address that is mapped for certain; the instruction only reads.
    unsafe {
        asm!("mov {}, [{}]", out(reg) word, in(reg) address,
            options(nostack, readonly, preserves_flags));
    }
    word
}

/// Calls a function of the target's own with one argument. Our callers may rely on vector registers
/// that the function they call is known not to touch, so these are kept: of wide ones the lower half,
/// since what asks for a size moves no wide ones.
#[inline(never)]
pub(crate) fn ask(function: u64, argument: u64) -> u64 {
    let answer;
    // SAFETY: the injector says of this function that it takes a block and answers a number. The stack
    // pointer is given back, and what a function may change is named, or kept.
    unsafe {
        asm!(
            "mov r12, rsp",
            "sub rsp, 256",
            "and rsp, -16",
            "movaps [rsp], xmm0; movaps [rsp + 16], xmm1; movaps [rsp + 32], xmm2",
            "movaps [rsp + 48], xmm3; movaps [rsp + 64], xmm4; movaps [rsp + 80], xmm5",
            "movaps [rsp + 96], xmm6; movaps [rsp + 112], xmm7; movaps [rsp + 128], xmm8",
            "movaps [rsp + 144], xmm9; movaps [rsp + 160], xmm10; movaps [rsp + 176], xmm11",
            "movaps [rsp + 192], xmm12; movaps [rsp + 208], xmm13; movaps [rsp + 224], xmm14",
            "movaps [rsp + 240], xmm15",
            "call rax",
            "movaps xmm0, [rsp]; movaps xmm1, [rsp + 16]; movaps xmm2, [rsp + 32]",
            "movaps xmm3, [rsp + 48]; movaps xmm4, [rsp + 64]; movaps xmm5, [rsp + 80]",
            "movaps xmm6, [rsp + 96]; movaps xmm7, [rsp + 112]; movaps xmm8, [rsp + 128]",
            "movaps xmm9, [rsp + 144]; movaps xmm10, [rsp + 160]; movaps xmm11, [rsp + 176]",
            "movaps xmm12, [rsp + 192]; movaps xmm13, [rsp + 208]; movaps xmm14, [rsp + 224]",
            "movaps xmm15, [rsp + 240]",
            "mov rsp, r12",
            inout("rax") function => answer, inout("rdi") argument => _, out("rcx") _,
            out("rdx") _, out("rsi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _,
        );
    }
    answer
}

/// Gives the other hardware thread a chance.
pub(crate) fn pause() {
    core::hint::spin_loop();
}

/// The time-stamp counter. Faults where the target may not read it.
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: asked for only if the injector set a deadline, which it does where it may be read.
    unsafe { core::arch::x86_64::_rdtsc() }
}
