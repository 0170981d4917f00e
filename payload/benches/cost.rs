//! What a hook costs: time per call over a wrapper that only jumps, by paired runs.
//!
//! # Safety
//! The originals are `malloc` and `free` of this process, called as a pair.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)]

use std::{hint::black_box, time::Instant};

use heapattach_abi::{kind::ArgKind, table::ALL_ROWS};

#[path = "../tests/payload/mapped.rs"]
mod mapped;
#[path = "../tests/payload/placed.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod placed;
#[path = "../tests/payload/sites.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod sites;
#[path = "../tests/payload/steps.rs"]
mod steps;

use placed::Placed;
use sites::{Sites, sum};

const SITES: usize = 5;
const PAIRS: usize = 200_000;
const ROUNDS: usize = 101;

/// Call sites of an allocating and a freeing function.
struct Pair {
    name: &'static str,
    allocate: Sites,
    free: Sites,
}

impl Pair {
    fn new(name: &'static str, allocate: u64, free: u64) -> Self {
        Self { name, allocate: Sites::new(allocate, SITES), free: Sites::new(free, SITES) }
    }

    /// Nanoseconds of one pair.
    fn time(&self) -> f64 {
        let start = Instant::now();
        for pair in 0..PAIRS {
            let block = self.allocate.call(pair % SITES, 48, 0, 0);
            self.free.call(pair % SITES, black_box(block), 0, 0);
        }
        start.elapsed().as_nanos() as f64 / PAIRS as f64
    }
}

/// `jmp [rip]` to an address.
fn jump_to(address: u64) -> u64 {
    let code = mapped::Mapped::new(4096, libc::PROT_READ | libc::PROT_EXEC);
    code.write(0, &[0xff, 0x25, 2, 0, 0, 0]);
    code.set(8, address);
    code.address
}

fn main() {
    let (malloc, free) = (ArgKind::Arg0.first_hook(), ArgKind::None.first_hook());
    for (what, original) in [
        ("malloc and free", [libc::malloc as *const () as u64, libc::free as *const () as u64]),
        ("a function that adds", [sum as *const () as u64; 2]),
    ] {
        let [on, off, shared] = [(); 3].map(|()| {
            let placed = Placed::new(original[0]);
            placed.set_original(free, original[1]);
            placed
        });
        off.disable();
        shared.give_away(1..ALL_ROWS);
        let hooked = |name, p: &Placed| Pair::new(name, p.hook(malloc), p.hook(free));
        let pairs = [
            Pair::new("jump", jump_to(original[0]), jump_to(original[1])),
            Pair::new("direct", original[0], original[1]),
            Pair::new("jump again", jump_to(original[0]), jump_to(original[1])),
            hooked("disabled", &off),
            hooked("enabled", &on),
            hooked("shared row", &shared),
        ];
        println!("{what}: ns per call; from the second line on, what it takes longer");
        let mut over = vec![Vec::new(); pairs.len()];
        for _ in 0..ROUNDS {
            over[0].push(pairs[0].time() / 2.0);
            for (pair, over) in pairs.iter().zip(&mut over).skip(1) {
                let base = pairs[0].time();
                over.push((pair.time() - base) / 2.0);
            }
        }
        for (pair, over) in pairs.iter().zip(&mut over) {
            over.sort_by(f64::total_cmp);
            let [low, middle, high] = [1, 2, 3].map(|quarter| over[quarter * ROUNDS / 4]);
            println!("  {:12} {middle:6.2}  ({low:.2} .. {high:.2})", pair.name);
        }
    }
    instructions();
}

fn instructions() {
    println!("instructions in the payload per call (1 is the wrapper's)");
    for kind in ArgKind::ALL {
        let placed = Placed::new(sum as *const () as u64);
        let sites = Sites::new(placed.hook(kind.first_hook()), 1);
        let count = || {
            let nothing = (sum as steps::Call, sum as steps::Call);
            steps::interrupt(sites.function(0), [1, 1, 1], placed.code(), u32::MAX, nothing)
        };
        let (first, second) = (count(), count());
        placed.disable();
        println!("  {kind:?}: first {first}, then {second}, disabled {}", count());
    }
}
