//! What a hook costs: time per call over a wrapper that only jumps, by paired runs.
//!
//! # Safety
//! The originals are `malloc` and `free` of this process, called as a pair.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)]

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use heapattach_abi::kind::HookKind;

#[path = "../tests/payload/mapped.rs"]
mod mapped;
#[path = "../tests/payload/originals.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod originals;
#[path = "../tests/payload/placed.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod placed;
#[path = "../tests/payload/steps.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod steps;

use mapped::Mapped;
use originals::{Call, sum};
use placed::Placed;

const PAIRS: usize = 100_000;
const ROUNDS: usize = 51;
const INTERVAL: u64 = 512 << 10;

/// An allocating and a freeing function.
struct Pair {
    name: &'static str,
    allocate: Call,
    free: Call,
}

impl Pair {
    fn hooked(name: &'static str, placed: &Placed) -> Self {
        let [allocate, free] = [HookKind::Malloc, HookKind::Free].map(|kind| placed.first(kind));
        Self { name, allocate, free }
    }

    /// Nanoseconds of one pair.
    fn time(&self) -> f64 {
        let start = Instant::now();
        for _ in 0..PAIRS {
            let block = (self.allocate)(48, 0, 0, 0);
            (self.free)(black_box(block), 0, 0, 0);
        }
        start.elapsed().as_nanos() as f64 / PAIRS as f64
    }
}

fn as_call(address: u64) -> Call {
    // SAFETY: code that takes and returns words in registers.
    unsafe { std::mem::transmute::<u64, Call>(address) }
}

/// `jmp [rip]` to an address.
fn jump_to(address: u64) -> Call {
    let code = Mapped::text(4096);
    code.write(0, &[0xff, 0x25, 2, 0, 0, 0]);
    code.set(8, address);
    as_call(code.address)
}

fn placed(originals: [u64; 2], interval: u64, ring_bits: u32) -> Placed {
    let placed = Placed::new(interval, ring_bits);
    placed.lead_hook(HookKind::Malloc.first_hook(), originals[0]);
    placed.lead_hook(HookKind::Free.first_hook(), originals[1]);
    placed
}

fn main() {
    for (what, originals) in [
        ("malloc and free", [libc::malloc as *const () as u64, libc::free as *const () as u64]),
        ("a function that adds", [sum as *const () as u64; 2]),
    ] {
        measure(what, originals);
    }
    instructions();
}

fn measure(what: &str, originals: [u64; 2]) {
    let unsampled = placed(originals, INTERVAL, 12);
    let [often, all] = [4096, 1].map(|interval| placed(originals, interval, 18));
    let full = placed(originals, 1, 14);
    let off = placed(originals, INTERVAL, 12);
    Pair::hooked("", &off).time();
    off.disable();
    let unknown = placed(originals, INTERVAL, 12);
    unknown.disable();
    let shared = placed(originals, INTERVAL, 12);
    shared.use_up_rows();
    let jump = |name| Pair { name, allocate: jump_to(originals[0]), free: jump_to(originals[1]) };
    let direct = originals.map(as_call);
    let pairs = [
        jump("jump"),
        Pair { name: "direct", allocate: direct[0], free: direct[1] },
        jump("jump again"),
        Pair::hooked("disabled", &off),
        Pair::hooked("and unknown", &unknown),
        Pair::hooked("512 KiB", &unsampled),
        Pair::hooked("4 KiB", &often),
        Pair::hooked("everything", &all),
        Pair::hooked("ring full", &full),
        Pair::hooked("shared row", &shared),
    ];
    println!("{what}: ns per pair; from the second line on, what it takes longer");
    let mut over = vec![Vec::new(); pairs.len()];
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                [&unsampled, &often, &all, &shared].into_iter().for_each(Placed::drain);
                thread::sleep(Duration::from_micros(300));
            }
        });
        for _ in 0..ROUNDS {
            over[0].push(pairs[0].time());
            for (pair, over) in pairs.iter().zip(&mut over).skip(1) {
                let base = pairs[0].time();
                over.push(pair.time() - base);
            }
        }
        done.store(true, Relaxed);
    });
    for (pair, over) in pairs.iter().zip(&mut over) {
        over.sort_by(f64::total_cmp);
        let [low, middle, high] = [1, 2, 3].map(|quarter| over[quarter * ROUNDS / 4]);
        println!("  {:12} {middle:6.2}  ({low:.2} .. {high:.2})", pair.name);
    }
    let row = all.own_row();
    let lost = [heapattach_abi::row::DROPPED_BLOCKS, heapattach_abi::row::DROPPED_FREES]
        .map(|at| all.row(row, at));
    println!("  of everything, {} records found no room", lost[0] + lost[1]);
}

fn instructions() {
    println!("instructions in the payload per call (1 is the wrapper's)");
    for kind in HookKind::ALL {
        let placed = Placed::new(placed::NEVER, 6);
        placed.lead(kind, sum);
        let count = || steps::trace(&placed, placed.first(kind), [16; 4]).len();
        let (first, second) = (count(), count());
        placed.disable();
        println!("  {kind:?}: first {first}, then {second}, disabled {}", count());
    }
}
