//! Blocks counted by size, with the allocator of glibc itself behind the hooks.
//!
//! # Safety
//! Hooks are called as the functions they stand for, with blocks that they allocated.
#![cfg(target_env = "gnu")]
#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use heapattach_abi::{
    flow::{self, chunk_of, class},
    form::Form,
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
    [(HookKind::Malloc, 49), (HookKind::Free, 35), (HookKind::Calloc, 55)];

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
    // SAFETY: a block of glibc's, which is not freed yet.
    class(unsafe { head.read_volatile() } & !15)
}

fn in_turn(placed: &Placed, kind: HookKind, args: [u64; 4]) -> u64 {
    let call: Call = placed.first(kind);
    call(args[0], args[1], args[2], args[3])
}

/// One block allocated, and freed, of these classes.
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

/// The room in a block, as the allocator tells it.
fn room(block: u64) -> u64 {
    let block = std::ptr::with_exposed_provenance_mut(index(block));
    // SAFETY: a block of this process that is not freed yet.
    unsafe { libc::malloc_usable_size(block) as u64 }
}

/// The hooks lead to the allocator of this process, which is asked for sizes.
fn placed_asking(interval: u64, sizer: Call, owner: Option<Call>) -> Placed {
    let placed = placed(interval);
    let malloc = libc::malloc as *const () as usize as u64;
    let realloc = libc::realloc as *const () as usize as u64;
    placed.lead_hook(HookKind::New.first_hook(), malloc);
    placed.lead_hook(HookKind::Chosen.first_hook(), realloc);
    let form = Form { block: 1, size: 2, ..Form::default() };
    for kind in HookKind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, HookKind::Map | HookKind::Unmap | HookKind::Remap))
    {
        let hook = kind.first_hook();
        match kind {
            HookKind::New => placed.set_second(hook, malloc),
            HookKind::Chosen => placed.set_second(hook, form.pack()),
            _ => placed.set_second(hook, 0),
        }
        placed.set_sizer(
            hook,
            sizer as usize as u64,
            owner.map_or(0, |owner| owner as usize as u64),
        );
    }
    placed
}

extern "C" fn tell(block: u64, _: u64, _: u64, _: u64) -> u64 {
    room(block)
}

extern "C" fn owned(_: u64, _: u64, _: u64, _: u64) -> u64 {
    1
}

extern "C" fn foreign(_: u64, _: u64, _: u64, _: u64) -> u64 {
    2
}

#[test]
fn an_allocator_is_asked_for_the_size_of_its_blocks() {
    for (interval, owner) in [(NEVER, None), (4096, Some(owned as Call)), (1, None)] {
        let placed = placed_asking(interval, tell, owner);
        let (mut came, mut went) = (Vec::new(), Vec::new());
        for size in SIZES {
            for (kind, args) in [
                (HookKind::Malloc, [size, 0, 0, 0]),
                (HookKind::Calloc, [size, 2, 0, 0]),
                (HookKind::Memalign, [64, size, 0, 0]),
                (HookKind::New, [size, 0, 0, 0]),
                (HookKind::Chosen, [0, size + 1, 0, 0]),
            ] {
                placed.drain();
                let block = in_turn(&placed, kind, args);
                came.push(class(room(block)));
                went.push(class(room(block)));
                let by = if size % 2 == 0 { HookKind::Realloc } else { HookKind::Chosen };
                let grown = in_turn(&placed, by, [block, 3 * size + 64, 0, 0]);
                came.push(class(room(grown)));
                went.push(class(room(grown)));
                in_turn(&placed, HookKind::Free, [grown, 0, 0, 0]);
            }
        }
        in_turn(&placed, HookKind::Free, [0; 4]);
        assert_eq!(in_turn(&placed, HookKind::Malloc, [u64::MAX, 0, 0, 0]), 0);
        let block = in_turn(&placed, HookKind::Malloc, [100, 0, 0, 0]);
        assert_eq!(in_turn(&placed, HookKind::Realloc, [block, u64::MAX / 2, 0, 0]), 0);
        came.push(class(room(block)));
        assert_eq!(placed.flows(), expected(&came, &went), "one in {interval} bytes");
        assert_eq!(placed.total(row::BUSY), 0);
        let word = placed.word(region::SIZES_AT + class(chunk_of(100)) * 8);
        assert_eq!(flow::sizes(word), Some((room(block), room(block))));
        in_turn(&placed, HookKind::Free, [block, 0, 0, 0]);
    }
}

#[test]
fn blocks_that_are_not_the_allocators_are_not_asked_about() {
    let placed = placed_asking(NEVER, tell, Some(foreign));
    // Address 1 has no room that could be told.
    for (kind, args) in [(HookKind::Free, [1, 0, 0, 0]), (HookKind::Realloc, [1, 16, 0, 0])] {
        placed.lead_hook(kind.first_hook(), zero as *const () as usize as u64);
        placed.set_second(kind.first_hook(), 0);
        in_turn(&placed, kind, args);
    }
    assert!(placed.flows().is_empty(), "{:?}", placed.flows());
}

static AGAIN: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// An allocator that asks itself for memory before it answers.
extern "C" fn young(block: u64, _: u64, _: u64, _: u64) -> u64 {
    ASKED.fetch_add(1, Relaxed);
    let hook = std::ptr::with_exposed_provenance::<()>(index(AGAIN.load(Relaxed)));
    // SAFETY: the hook of malloc of a payload that lives as long as the test.
    let hook: Call = unsafe { std::mem::transmute::<*const (), Call>(hook) };
    let own = hook(8, 0, 0, 0);
    // SAFETY: it was allocated just now.
    unsafe { libc::free(std::ptr::with_exposed_provenance_mut(index(own))) };
    room(block)
}

#[test]
fn an_allocator_that_asks_for_memory_to_answer_is_not_asked_about_that() {
    let placed = placed_asking(NEVER, young, None);
    AGAIN.store(placed.hook_address(HookKind::Malloc.first_hook()), Relaxed);
    let block = in_turn(&placed, HookKind::Malloc, [100, 0, 0, 0]);
    assert_eq!(placed.flows(), expected(&[class(room(block))], &[]));
    assert_eq!(ASKED.load(Relaxed), 1);
    in_turn(&placed, HookKind::Free, [block, 0, 0, 0]);
}
