//! The original finds every register as the caller left it: general, flags, vector, x87.
//!
//! # Safety
//! `probe` loads registers from memory, calls, and gives the callee-saved ones back; `witness`
//! stands where the original would and writes all of them down. One test uses them, in turn.
#![allow(unsafe_code)]

use std::{
    arch::{asm, naked_asm},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use heapattach_abi::{
    kind::{ArgKind, MAX_HOOKS},
    table::{ALL_ROWS, TICKS},
};

use crate::placed::Placed;

const GENERAL: usize = 15; // without rsp
const FLAGS: usize = GENERAL;
const RSP: usize = 16;
const WORDS: usize = 18;
const FXSAVE_WORDS: usize = 52; // up to xmm15; the rest is not written

#[repr(C, align(16))]
struct State {
    words: [AtomicU64; WORDS],
    fxsave: [AtomicU64; 64],
}

static GIVEN: State = state();
static SEEN: State = state();
static CALLEE: AtomicU64 = AtomicU64::new(0);

const fn state() -> State {
    State { words: [const { AtomicU64::new(0) }; WORDS], fxsave: [const { AtomicU64::new(0) }; 64] }
}

#[unsafe(naked)]
extern "C" fn probe() {
    naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15; sub rsp, 8",
        "lea rax, [rip + {given}]",
        "fxrstor64 [rax + 144]",
        "lea rcx, [rsp - 8]",
        "mov [rax + 128], rcx",
        "push [rax + 120]; popfq",
        "mov rcx, [rax + 8]; mov rdx, [rax + 16]; mov rbx, [rax + 24]; mov rbp, [rax + 32]",
        "mov rsi, [rax + 40]; mov rdi, [rax + 48]; mov r8, [rax + 56]; mov r9, [rax + 64]",
        "mov r10, [rax + 72]; mov r11, [rax + 80]; mov r12, [rax + 88]; mov r13, [rax + 96]",
        "mov r14, [rax + 104]; mov r15, [rax + 112]; mov rax, [rax]",
        "call [rip + {callee}]",
        "cld",
        "add rsp, 8; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
        given = sym GIVEN,
        callee = sym CALLEE,
    )
}

#[unsafe(naked)]
extern "C" fn witness() {
    naked_asm!(
        "mov [rip + {seen}], rax; mov [rip + {seen} + 8], rcx; mov [rip + {seen} + 16], rdx",
        "mov [rip + {seen} + 24], rbx; mov [rip + {seen} + 32], rbp; mov [rip + {seen} + 40], rsi",
        "mov [rip + {seen} + 48], rdi; mov [rip + {seen} + 56], r8; mov [rip + {seen} + 64], r9",
        "mov [rip + {seen} + 72], r10; mov [rip + {seen} + 80], r11; mov [rip + {seen} + 88], r12",
        "mov [rip + {seen} + 96], r13; mov [rip + {seen} + 104], r14; mov [rip + {seen} + 112], r15",
        "mov [rip + {seen} + 128], rsp",
        "pushfq; pop [rip + {seen} + 120]",
        "fxsave64 [rip + {seen} + 144]",
        "ret",
        seen = sym SEEN,
    )
}

fn address(function: extern "C" fn()) -> u64 {
    function as usize as u64
}

/// Calls a hook with registers full of noise and compares what the original saw.
fn check(hook: u64, noise: &mut u64) {
    let mut next = || {
        *noise ^= *noise << 13;
        *noise ^= *noise >> 7;
        *noise ^= *noise << 17;
        *noise
    };
    for word in &GIVEN.words {
        word.store(next(), Relaxed);
    }
    // Carry, parity, adjust, zero, sign, direction, overflow; bit 1 and interrupts are always on.
    GIVEN.words[FLAGS].store(0x202 | next() & 0xcd5, Relaxed);
    // SAFETY: 512 aligned bytes to write to; the control words in them stay, so restoring is sound.
    unsafe { asm!("fxsave64 [{}]", in(reg) GIVEN.fxsave.as_ptr()) };
    for xmm in &GIVEN.fxsave[20..FXSAVE_WORDS] {
        xmm.store(next(), Relaxed);
    }
    CALLEE.store(hook, Relaxed);
    probe();
    for (word, (given, seen)) in GIVEN.words.iter().zip(&SEEN.words).enumerate().take(RSP + 1) {
        assert_eq!(seen.load(Relaxed), given.load(Relaxed), "word {word} of the registers");
    }
    let pairs = GIVEN.fxsave.iter().zip(&SEEN.fxsave).take(FXSAVE_WORDS);
    for (word, (given, seen)) in pairs.enumerate() {
        assert_eq!(seen.load(Relaxed), given.load(Relaxed), "word {word} of the vector state");
    }
}

#[test]
fn the_original_finds_every_register_as_it_was() {
    let mut noise = 0x1234_5678_9abc_def1;
    check(address(witness), &mut noise);
    for full in [false, true] {
        let placed = Placed::new(address(witness));
        if full {
            placed.give_away(1..ALL_ROWS);
        }
        for hook in 0..MAX_HOOKS {
            (0..200).for_each(|_| check(placed.hook(hook), &mut noise));
        }
        // Past every look at the heartbeat, with and without a deadline.
        for kind in ArgKind::ALL {
            placed.enable(u64::MAX);
            (0..2 * TICKS).for_each(|_| check(placed.hook(kind.first_hook()), &mut noise));
            placed.enable(1);
            (0..2 * TICKS).for_each(|_| check(placed.hook(kind.first_hook()), &mut noise));
            assert_eq!(placed.state(), (0, 1));
        }
    }
}
