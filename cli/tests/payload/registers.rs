//! The original finds every register as the caller left it, and the caller as the original did:
//! general, vector, x87.
//!
//! # Safety
//! `probe` loads registers from memory, calls, writes them down and gives the callee-saved ones
//! back; `witness` stands where the original would, writes down what it finds and loads others.
//! One test uses them, in turn.
#![allow(unsafe_code)]

use std::{
    arch::{asm, naked_asm},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use heapattach_abi::{
    kind::{HookKind, MAX_HOOKS},
    row,
};

use crate::placed::{NEVER, Placed};

const GENERAL: usize = 15; // without rsp
const RAX: usize = 0;
const RDX: usize = 2;
const RSI: usize = 5;
const RDI: usize = 6;
/// What a stranger's call may change, and a brief hook does.
const LOST: std::ops::RangeInclusive<usize> = 9..=10; // r10, r11
const FLAGS: usize = 15;
const RSP: usize = 16;
const RETURN: usize = 17;
const WORDS: usize = 18;
const FXSAVE_WORDS: usize = 52; // up to xmm15; the rest is not written
/// Carry, parity, adjust, zero, sign, direction, overflow.
const FLAG_BITS: u64 = 0xcd5;
const DIRECTION: u64 = 0x400;
/// Carry, parity, adjust, zero, sign and overflow.
const ARITHMETIC: u64 = 0x8d5;

#[repr(C, align(16))]
struct State {
    words: [AtomicU64; WORDS],
    fxsave: [AtomicU64; 64],
}

/// What the caller has, what the original finds, what it leaves, and what the caller gets.
static GIVEN: State = state();
static SEEN: State = state();
static LEFT: State = state();
static GOT: State = state();
static CALLEE: AtomicU64 = AtomicU64::new(0);
/// A block with the word that an allocator keeps before it.
static BLOCK: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

const fn state() -> State {
    State { words: [const { AtomicU64::new(0) }; WORDS], fxsave: [const { AtomicU64::new(0) }; 64] }
}

/// Writes all registers to a state; rax has been written already and may be used.
macro_rules! save {
    () => {
        "mov [rip + {to} + 8], rcx; mov [rip + {to} + 16], rdx; mov [rip + {to} + 24], rbx
         mov [rip + {to} + 32], rbp; mov [rip + {to} + 40], rsi; mov [rip + {to} + 48], rdi
         mov [rip + {to} + 56], r8; mov [rip + {to} + 64], r9; mov [rip + {to} + 72], r10
         mov [rip + {to} + 80], r11; mov [rip + {to} + 88], r12; mov [rip + {to} + 96], r13
         mov [rip + {to} + 104], r14; mov [rip + {to} + 112], r15; mov [rip + {to} + 128], rsp
         mov rax, [rsp]; mov [rip + {to} + 136], rax
         pushfq; pop [rip + {to} + 120]
         fxsave64 [rip + {to} + 144]"
    };
}

/// Loads all registers but rsp from a state.
macro_rules! load {
    () => {
        "lea rax, [rip + {from}]
         fxrstor64 [rax + 144]
         push [rax + 120]; popfq
         mov rcx, [rax + 8]; mov rdx, [rax + 16]; mov rbx, [rax + 24]; mov rbp, [rax + 32]
         mov rsi, [rax + 40]; mov rdi, [rax + 48]; mov r8, [rax + 56]; mov r9, [rax + 64]
         mov r10, [rax + 72]; mov r11, [rax + 80]; mov r12, [rax + 88]; mov r13, [rax + 96]
         mov r14, [rax + 104]; mov r15, [rax + 112]; mov rax, [rax]"
    };
}

#[unsafe(naked)]
extern "C" fn probe() {
    naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15; sub rsp, 8",
        "lea rcx, [rsp - 8]; mov [rip + {from} + 128], rcx",
        "lea rcx, [rip + 2f]; mov [rip + {from} + 136], rcx",
        load!(),
        "call [rip + {callee}]",
        "2: mov [rip + {to}], rax",
        save!(),
        "cld",
        "add rsp, 8; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
        from = sym GIVEN,
        to = sym GOT,
        callee = sym CALLEE,
    )
}

#[unsafe(naked)]
extern "C" fn witness() {
    naked_asm!(
        "mov [rip + {to}], rax",
        save!(),
        load!(),
        "ret",
        from = sym LEFT,
        to = sym SEEN,
    )
}

/// Changes every register that a function may, and answers 1.
#[unsafe(naked)]
extern "C" fn disturb() -> u64 {
    naked_asm!(
        "mov eax, 1",
        "lea rcx, [rip]; mov rdx, rcx; mov rsi, rcx; mov rdi, rcx; mov r8, rcx; mov r9, rcx",
        "mov r10, rcx; mov r11, rcx",
        "movq xmm0, rcx; movq xmm1, rcx; movq xmm2, rcx; movq xmm3, rcx; movq xmm4, rcx",
        "movq xmm5, rcx; movq xmm6, rcx; movq xmm7, rcx; movq xmm8, rcx; movq xmm9, rcx",
        "movq xmm10, rcx; movq xmm11, rcx; movq xmm12, rcx; movq xmm13, rcx; movq xmm14, rcx",
        "movq xmm15, rcx",
        "ret",
    )
}

/// The way a call takes through the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Jumps to the original.
    Jump,
    /// Calls it.
    Call,
}

/// Noise for one call after the other.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fill(&mut self, state: &State) {
        for word in &state.words {
            word.store(self.next(), Relaxed);
        }
        // Bit 1 and interrupts are always on.
        state.words[FLAGS].store(0x202 | self.next() & FLAG_BITS, Relaxed);
        // SAFETY: 512 aligned bytes to write to; the control words in them stay, so restoring is
        // sound.
        unsafe { asm!("fxsave64 [{}]", in(reg) state.fxsave.as_ptr()) };
        for xmm in &state.fxsave[20..FXSAVE_WORDS] {
            xmm.store(self.next(), Relaxed);
        }
    }
}

/// Calls a hook with registers full of noise, except for sizes below `limit`, and compares.
fn check(
    placed: Option<&Placed>,
    (hook, is_brief): (u64, bool),
    kind: HookKind,
    limit: u64,
    noise: &mut Noise,
) -> Way {
    noise.fill(&GIVEN);
    noise.fill(&LEFT);
    for register in [RDI, RSI, RDX] {
        let word = &GIVEN.words[register];
        word.store(word.load(Relaxed) % limit, Relaxed);
    }
    let block = BLOCK.as_ptr().expose_provenance() as u64 + 8;
    let place = [if placed.is_some_and(|p| p.is_flow) { block } else { 0x1234_5670_u64 }; 2];
    if kind == HookKind::PosixMemalign {
        GIVEN.words[RDI].store(place.as_ptr().expose_provenance() as u64, Relaxed);
        // Every other call succeeds.
        let succeeds = noise.next().is_multiple_of(2);
        LEFT.words[RAX].fetch_and(if succeeds { !0xffff_ffff } else { u64::MAX }, Relaxed);
    } else if placed.is_some_and(|placed| placed.is_flow) && !maps(kind) {
        let size = noise.next() >> (noise.next() % 64);
        BLOCK[0].store(size, Relaxed);
        let or_null = |noise: &mut Noise| if noise.next().is_multiple_of(4) { 0 } else { block };
        // Where the form that does not throw answers null, the other one is asked.
        let left = if kind == HookKind::New { block } else { or_null(noise) };
        LEFT.words[RAX].store(left, Relaxed);
        if matches!(kind, HookKind::Free | HookKind::Realloc) {
            GIVEN.words[RDI].store(or_null(noise), Relaxed);
        }
    }
    CALLEE.store(hook, Relaxed);
    probe();
    let word = |state: &State, word: usize| state.words[word].load(Relaxed);
    let code = placed.map_or(0..0, Placed::code);
    let way = if code.contains(&word(&SEEN, RETURN)) { Way::Call } else { Way::Jump };
    let both = [(&GIVEN, &SEEN, "the original", is_brief), (&LEFT, &GOT, "the caller", false)];
    for (given, seen, what, loses) in both {
        for i in (0..GENERAL).filter(|i| !loses || !LOST.contains(i)) {
            assert_eq!(word(seen, i), word(given, i), "{kind:?}: register {i} of {what}");
        }
        let pairs = given.fxsave.iter().zip(&seen.fxsave).take(FXSAVE_WORDS);
        for (i, (given, seen)) in pairs.enumerate() {
            assert_eq!(
                seen.load(Relaxed),
                given.load(Relaxed),
                "{kind:?}: vector word {i}, {what}"
            );
        }
    }
    // A caller may not rely on the other flags, but strings are copied upwards or downwards.
    for (seen, given) in [(&SEEN, &GIVEN), (&GOT, &LEFT)] {
        let direction = word(seen, FLAGS) ^ word(given, FLAGS);
        assert_eq!(direction & DIRECTION, 0, "{kind:?}: direction");
    }
    if kind == HookKind::Chosen {
        let arithmetic = (word(&SEEN, FLAGS) ^ word(&GIVEN, FLAGS)) & ARITHMETIC;
        assert_eq!(arithmetic, 0, "{kind:?}: flags that the original may look at");
    }
    assert_eq!(word(&GOT, RSP), word(&GIVEN, RSP) + 8, "{kind:?}: stack pointer of the caller");
    match way {
        Way::Jump => {
            assert_eq!(word(&SEEN, RSP), word(&GIVEN, RSP), "{kind:?}");
            assert_eq!(word(&SEEN, RETURN), word(&GIVEN, RETURN), "{kind:?}");
        }
        Way::Call => assert_eq!(word(&SEEN, RSP) % 16, 8, "{kind:?}"),
    }
    way
}

/// Calls every hook and wants each to take one way.
fn sweep(
    placed: &Placed,
    limit: u64,
    noise: &mut Noise,
    before: impl Fn(),
    way: impl Fn(HookKind) -> Option<Way>,
) {
    for hook in 0..MAX_HOOKS {
        let kind = HookKind::of_hook(hook).unwrap();
        for round in 0..100 {
            placed.be_brief(round % 2 == 1);
            placed.drain();
            before();
            let taken = check(
                Some(placed),
                (placed.hook_address(hook), placed.is_brief(hook)),
                kind,
                limit,
                noise,
            );
            assert!(way(kind).is_none_or(|way| way == taken), "{kind:?} took {taken:?}");
        }
    }
}

fn placed(interval: u64) -> Placed {
    lead(Placed::new(interval, 4))
}

fn lead(placed: Placed) -> Placed {
    let witness: extern "C" fn() = witness;
    (0..MAX_HOOKS).for_each(|hook| placed.lead_hook(hook, witness as usize as u64));
    placed
}

fn maps(kind: HookKind) -> bool {
    matches!(kind, HookKind::Map | HookKind::Unmap | HookKind::Remap)
}

#[test]
fn original_and_caller_find_every_register_as_it_was() {
    use Way::{Call, Jump};
    const SMALL: u64 = 1 << 8;
    let noise = &mut Noise(0x1234_5678_9abc_def1);
    let witness: extern "C" fn() = witness;
    check(None, (witness as usize as u64, false), HookKind::Free, u64::MAX, noise);

    // Counted: the fast path, then the slow one for a thread that is not known.
    let counting = placed(NEVER);
    let counted = |kind| Some(if maps(kind) { Call } else { Jump });
    sweep(&counting, SMALL, noise, || (), counted);
    sweep(&counting, SMALL, noise, || counting.forget_threads(), counted);
    // A block that may be a sample and is none; with a look at the heartbeat.
    counting.fill_filter();
    counting.set_deadline(u64::MAX);
    let ticks = || counting.set_row(counting.own_row(), row::ROW_TICKS, 0);
    sweep(&counting, SMALL, noise, ticks, counted);
    // Sizes nearly all of which are recorded, and sizes that no allocator grants.
    sweep(&counting, u64::MAX, noise, || (), |_| None);
    // No row left.
    counting.use_up_rows();
    counting.fill_index(0);
    sweep(&counting, SMALL, noise, || (), counted);
    // Off, for known threads and for others.
    counting.disable();
    sweep(&counting, u64::MAX, noise, || (), |_| Some(Jump));
    counting.wipe_private();
    sweep(&counting, u64::MAX, noise, || (), |_| Some(Jump));

    // The build that counts blocks by size: what allocates blocks is called.
    for interval in [NEVER, 1] {
        let sizes = lead(Placed::of_flow(interval, 4));
        let calls = |kind| match kind {
            HookKind::Free | HookKind::Chosen | HookKind::New => None,
            _ => Some(Call),
        };
        sweep(&sizes, SMALL, noise, || (), calls);
        sweep(&sizes, SMALL, noise, || sizes.forget_threads(), calls);
        sizes.disable();
        sweep(&sizes, u64::MAX, noise, || (), |_| None);
    }

    // And asks for sizes.
    let asking = lead(Placed::of_flow(NEVER, 4));
    let disturb: extern "C" fn() -> u64 = disturb;
    for hook in 0..MAX_HOOKS {
        let kind = HookKind::of_hook(hook).unwrap();
        if !maps(kind) {
            let own = disturb as usize as u64;
            asking.set_sizer(hook, own, if hook % 2 == 0 { own } else { 0 });
        }
    }
    sweep(&asking, SMALL, noise, || (), |_| None);
    assert!(!asking.flows().is_empty());

    // Samples by the countdown.
    let sampling = placed(SMALL);
    sweep(&sampling, SMALL, noise, || (), |_| None);
    let at_once = || sampling.set_row(sampling.own_row(), row::COUNTDOWN, 0);
    sweep(&sampling, SMALL, noise, at_once, |_| None);

    // Everything.
    let recorded = |kind| Some(if kind == HookKind::Free { Jump } else { Call });
    let all = placed(1);
    sweep(&all, SMALL, noise, || (), recorded);
    sweep(&all, u64::MAX, noise, || all.forget_threads(), recorded);
    all.use_up_rows();
    all.fill_index(0);
    sweep(&all, u64::MAX, noise, || (), recorded);
    // The heartbeat is found stale.
    all.set_deadline(1);
    all.fill_index(0);
    sweep(&all, u64::MAX, noise, || (), |_| None);
    assert_eq!(all.state(), (false, true));
}
