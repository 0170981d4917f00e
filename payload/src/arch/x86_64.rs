//! The section for x86-64: descriptor, hooks, cells.
//!
//! # Safety
//! The hooks are assembly, in `x86_64.s`, which says what it promises. As a Rust function they are
//! only a name for the bytes: the first ones are the descriptor, so it must never be called.
#![allow(unsafe_code)]

use core::{
    arch::{asm, naked_asm},
    mem::offset_of,
};

use heapattach_abi::{
    control, flow, image, index,
    kind::{HookKind, MAX_HOOKS},
    row, samples,
};

use crate::{
    frame::{FRAME_BYTES, Frame},
    hooks,
    place::Place,
};

/// The start of the section. **Not a function**: data first, to be copied and mapped.
///
/// # Safety
/// Must not be called.
// One naked function instead of `global_asm!`: rustc exports it and keeps it at the link, which
// it does for no symbol that only the assembler knows.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".heapattach")]
pub unsafe extern "C" fn heapattach_payload() {
    naked_asm!(
        include_str!("x86_64.s"),
        ENTER = sym hooks::enter,
        LEAVE = sym hooks::leave,
        MAGIC = const image::MAGIC,
        VERSION = const image::VERSION,
        MAX_HOOKS = const MAX_HOOKS,
        FREE_KIND = const HookKind::Free as u8,
        MALLOC_KIND = const HookKind::Malloc as u8,
        CALLOC_KIND = const HookKind::Calloc as u8,
        REALLOC_KIND = const HookKind::Realloc as u8,
        MEMALIGN_KIND = const HookKind::Memalign as u8,
        POSIX_MEMALIGN_KIND = const HookKind::PosixMemalign as u8,
        MAP_KIND = const HookKind::Map as u8,
        UNMAP_KIND = const HookKind::Unmap as u8,
        REMAP_KIND = const HookKind::Remap as u8,
        NEW_KIND = const HookKind::New as u8,
        CHOSEN_KIND = const HookKind::Chosen as u8,
        FREE_FIRST = const HookKind::Free.first_hook(),
        FREE_HOOKS = const HookKind::Free.hooks(),
        MALLOC_FIRST = const HookKind::Malloc.first_hook(),
        MALLOC_HOOKS = const HookKind::Malloc.hooks(),
        CALLOC_FIRST = const HookKind::Calloc.first_hook(),
        CALLOC_HOOKS = const HookKind::Calloc.hooks(),
        REALLOC_FIRST = const HookKind::Realloc.first_hook(),
        REALLOC_HOOKS = const HookKind::Realloc.hooks(),
        MEMALIGN_FIRST = const HookKind::Memalign.first_hook(),
        MEMALIGN_HOOKS = const HookKind::Memalign.hooks(),
        POSIX_MEMALIGN_FIRST = const HookKind::PosixMemalign.first_hook(),
        POSIX_MEMALIGN_HOOKS = const HookKind::PosixMemalign.hooks(),
        MAP_FIRST = const HookKind::Map.first_hook(),
        MAP_HOOKS = const HookKind::Map.hooks(),
        UNMAP_FIRST = const HookKind::Unmap.first_hook(),
        UNMAP_HOOKS = const HookKind::Unmap.hooks(),
        REMAP_FIRST = const HookKind::Remap.first_hook(),
        REMAP_HOOKS = const HookKind::Remap.hooks(),
        NEW_FIRST = const HookKind::New.first_hook(),
        NEW_HOOKS = const HookKind::New.hooks(),
        CHOSEN_FIRST = const HookKind::Chosen.first_hook(),
        CHOSEN_HOOKS = const HookKind::Chosen.hooks(),
        INDEX_HASH_MUL = const index::HASH_MUL,
        // The hash, already multiplied by the size of an entry: one shift and one mask.
        INDEX_SHIFT = const index::HASH_SHIFT - index::ENTRY_BYTES.ilog2(),
        INDEX_MASK = const (index::BUCKETS - 1) * index::ENTRY_BYTES,
        ENTRY_KEY = const offset_of!(index::Entry, key),
        ENTRY_ROW = const offset_of!(index::Entry, row),
        THRESHOLD = const row::THRESHOLD,
        COUNTDOWN = const row::COUNTDOWN,
        COUNTS = const row::COUNTS,
        FILTER_SHIFT = const samples::GRANULE_SHIFT,
        FILTER_MASK = const samples::FILTER_BYTES - 1,
        IS_FLOW = const crate::flow::IS_ON as u8,
        FLOW_COUNTS = const flow::COUNTS,
        FLOW_FINE = const flow::FINE,
        FLOW_BIAS = const flow::BIAS * flow::CLASS_BYTES,
        FLOW_LAST = const (flow::CLASSES - 1) * flow::CLASS_BYTES,
        FLOW = const row::FLOW,
        BUSY = const row::BUSY,
        REGION = const control::REGION,
        FRAME_BYTES = const FRAME_BYTES,
        FRAME_RCX = const offset_of!(Frame, rcx),
        FRAME_RDX = const offset_of!(Frame, rdx),
        FRAME_RSI = const offset_of!(Frame, rsi),
        FRAME_RDI = const offset_of!(Frame, rdi),
        FRAME_R8 = const offset_of!(Frame, r8),
        FRAME_R9 = const offset_of!(Frame, r9),
        FRAME_RBP = const offset_of!(Frame, rbp),
        FRAME_CALL = const offset_of!(Frame, call),
        FRAME_ROW = const offset_of!(Frame, row),
        FRAME_R10 = const offset_of!(Frame, r10),
        FRAME_R11 = const offset_of!(Frame, r11),
        FRAME_FLAGS = const offset_of!(Frame, flags),
        FRAME_RAX = const offset_of!(Frame, rax),
        FRAME_TARGET = const offset_of!(Frame, target),
    )
}

// The hooks multiply the number of a hook by 16.
const _: () = assert!(row::COUNT_BYTES == 16);

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

/// Lets whoever waits for this processor have it.
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

/// A word of memory that is mapped for certain: where the original has just written to, or of a stack
/// that the thread stands on ([`crate::reach::Span`]).
#[inline(always)]
pub(crate) fn read(address: u64) -> u64 {
    let word;
    // SAFETY: see above.
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
