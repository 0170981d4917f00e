//! Blocks counted by size, with the allocator of glibc itself behind the hooks.
//!
//! # Safety
//! Hooks are called as the functions they stand for, with blocks that they handed out.
#![cfg(target_env = "gnu")]
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use heapattach_abi::{
    flow::{chunk_of, class},
    kind::HookKind,
    region, row,
};

use crate::{
    originals::{Call, index, zero},
    placed::{NEVER, Placed},
    steps::trace,
};

/// Requests of all magnitudes, some of which pages are mapped for.
const SIZES: [u64; 9] = [0, 1, 24, 25, 1000, 1016, 5000, 100_000, 50_000_000];
/// Instructions of a call that is counted by size, in a small class.
const MOST: [(HookKind, usize); 3] =
    [(HookKind::Malloc, 47), (HookKind::Free, 33), (HookKind::Calloc, 53)];

/// The hooks lead to the allocator of this very process.
fn placed(interval: u64) -> Placed {
    let placed = Placed::of_flow(interval, 10);
    for (kind, original) in [
        (HookKind::Malloc, libc::malloc as *const () as usize),
        (HookKind::Free, libc::free as *const () as usize),
        (HookKind::Calloc, libc::calloc as *const () as usize),
        (HookKind::Realloc, libc::realloc as *const () as usize),
        (HookKind::Memalign, libc::memalign as *const () as usize),
        (HookKind::PosixMemalign, libc::posix_memalign as *const () as usize),
    ] {
        placed.lead_hook(kind.first_hook(), original as u64);
    }
    placed
}

/// A block's class, from the word before it.
fn class_of(block: u64) -> usize {
    let head = std::ptr::with_exposed_provenance::<u64>(index(block) - 8);
    // SAFETY: a block of glibc's, which is not given back yet.
    class(unsafe { head.read_volatile() } & !15)
}

fn in_turn(placed: &Placed, kind: HookKind, args: [u64; 4]) -> u64 {
    let call: Call = placed.first(kind);
    call(args[0], args[1], args[2], args[3])
}

/// One block handed out, and given back, of these classes.
fn expected(came: &[usize], went: &[usize]) -> BTreeMap<usize, [u64; 2]> {
    let mut flows: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
    came.iter().for_each(|class| flows.entry(*class).or_default()[0] += 1);
    went.iter().for_each(|class| flows.entry(*class).or_default()[1] += 1);
    flows
}

#[test]
fn blocks_are_counted_by_their_size_when_they_come_and_when_they_go() {
    for interval in [NEVER, 4096, 1] {
        let placed = placed(interval);
        let (mut came, mut went) = (Vec::new(), Vec::new());
        for size in SIZES {
            let mut place = 0_u64;
            let into = std::ptr::from_mut(&mut place).expose_provenance() as u64;
            for (kind, args) in [
                (HookKind::Malloc, [size, 0, 0, 0]),
                (HookKind::Calloc, [size, 2, 0, 0]),
                (HookKind::Memalign, [64, size, 0, 0]),
                (HookKind::PosixMemalign, [into, 4096, size, 0]),
                (HookKind::Realloc, [0, size + 1, 0, 0]),
            ] {
                placed.drain();
                let got = in_turn(&placed, kind, args);
                let block = if kind == HookKind::PosixMemalign { place } else { got };
                came.push(class_of(block));
                let grown = in_turn(&placed, HookKind::Realloc, [block, 3 * size + 64, 0, 0]);
                went.push(*came.last().unwrap());
                came.push(class_of(grown));
                assert!(came.last() >= Some(&class(chunk_of(3 * size + 64))), "{kind:?} {size}");
                went.push(class_of(grown));
                in_turn(&placed, HookKind::Free, [grown, 0, 0, 0]);
            }
        }
        in_turn(&placed, HookKind::Free, [0; 4]);
        assert_eq!(placed.flows(), expected(&came, &went), "one in {interval} bytes");
        assert_eq!(placed.total(row::BUSY), 0);
    }
}

#[test]
fn a_block_that_nobody_could_hand_out_is_not_counted_and_an_old_one_stays() {
    let placed = placed(NEVER);
    let block = in_turn(&placed, HookKind::Malloc, [100, 0, 0, 0]);
    let before = placed.flows();
    assert_eq!(in_turn(&placed, HookKind::Malloc, [u64::MAX, 0, 0, 0]), 0);
    assert_eq!(in_turn(&placed, HookKind::Calloc, [1 << 40, 1 << 40, 0, 0]), 0);
    assert_eq!(in_turn(&placed, HookKind::Realloc, [block, u64::MAX / 2, 0, 0]), 0);
    assert_eq!(placed.flows(), before);
    in_turn(&placed, HookKind::Free, [block, 0, 0, 0]);
}

#[test]
fn blocks_of_other_allocators_are_not_looked_at() {
    let placed = placed(NEVER);
    for (kind, args) in [
        (HookKind::Malloc, [16, 0, 0, 0]),
        (HookKind::Free, [1, 0, 0, 0]),
        (HookKind::Realloc, [1, 16, 0, 0]),
    ] {
        let hook = kind.first_hook() + 1;
        placed.lead_hook(hook, zero as *const () as usize as u64);
        placed.set_second(hook, 0);
        let call = placed.hook(hook);
        // Address 1 has no word before it that could be read.
        call(args[0], args[1], args[2], args[3]);
    }
    assert!(placed.flows().is_empty(), "{:?}", placed.flows());
}

#[test]
fn a_thread_without_a_row_counts_in_everybodys() {
    let placed = placed(NEVER);
    placed.use_up_rows();
    let block = in_turn(&placed, HookKind::Malloc, [100, 0, 0, 0]);
    let own = class_of(block);
    in_turn(&placed, HookKind::Free, [block, 0, 0, 0]);
    let at = region::FLOWS_AT + own * heapattach_abi::flow::CLASS_BYTES;
    assert_eq!([placed.word(at), placed.word(at + 8)], [1, 1]);
}

#[test]
fn counting_by_size_takes_few_instructions() {
    let placed = placed(NEVER);
    for (kind, most) in MOST {
        let mut counts = [0; 3];
        for count in &mut counts {
            let block = in_turn(&placed, HookKind::Malloc, [40, 0, 0, 0]);
            let args = if kind == HookKind::Free { [block, 0, 0, 0] } else { [1, 40, 0, 0] };
            *count = trace(&placed, placed.first(kind), args).len();
        }
        println!("{kind:?}: {counts:?} instructions");
        assert!((20..=most).contains(&counts[2]), "{kind:?} takes {counts:?}");
    }
}
