//! The call stack of a record: the caller, then the chain of frame pointers on this very stack.
//!
//! # Safety
//! `call_with_frames` builds a chain of two frames on its own stack and calls from there.
#![allow(unsafe_code)]

use std::arch::naked_asm;

use heapattach_abi::{kind::HookKind, region, row, stacks::End};

use crate::placed::{Placed, Record, thread_pointer};

const FIRST: u64 = 0x11_1111;
const SECOND: u64 = 0x22_2222;

/// Calls `function(function)`; the frame pointer leads to two made-up frames.
#[unsafe(naked)]
extern "C" fn call_with_frames(function: u64) -> u64 {
    naked_asm!(
        "push rbp",
        "push {second}; push 0",
        "mov rax, rsp",
        "push {first}; push rax",
        "mov rbp, rsp",
        "call rdi",
        "lea rax, [rip]",
        "add rsp, 32",
        "pop rbp",
        "ret",
        first = const FIRST,
        second = const SECOND,
    )
}

/// What is recorded of one such call, and its return address.
fn one(placed: &Placed) -> (Record, u64) {
    placed.drain();
    // Seven bytes of `lea` lie between.
    let after = call_with_frames(placed.hook_address(HookKind::Malloc.first_hook())) - 7;
    let [record] = placed.records()[..] else { panic!("one record") };
    (record, after)
}

#[test]
fn a_thread_finds_its_own_stack() {
    let placed = Placed::new(1, 6);
    one(&placed);
    let here = &raw const placed as u64;
    let row = placed.own_row();
    let proof = placed.row(row, row::STACK_PROOF);
    assert!(proof > row::NO_PROOF, "{proof}");
    // SAFETY: words of this thread's control block, behind its thread pointer.
    let word = |at: u64| unsafe {
        let at = usize::try_from(thread_pointer() + proof + at).unwrap();
        std::ptr::with_exposed_provenance::<u64>(at).read()
    };
    let (start, end) = (word(0) + word(16), thread_pointer());
    assert!((start..end).contains(&here), "{here:#x} is not in {start:#x} to {end:#x}");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapping = maps.lines().find(|line| line.starts_with(&format!("{start:x}-"))).unwrap();
    assert!(mapping.contains("rw-p"), "the guard is no part of it: {mapping}");
}

#[test]
fn the_frame_pointers_are_followed_as_far_as_they_make_sense() {
    let placed = Placed::new(1, 6);
    let (record, after) = one(&placed);
    let (frames, end) = placed.stack(record.stack);
    assert_eq!((frames, end), (vec![after, FIRST, SECOND], End::Implausible as u8));
    // The same stack has the same number and is stored once.
    let taken = placed.word(region::STACK_WORDS_TAKEN);
    assert_eq!(
        (one(&placed).0.stack, placed.word(region::STACK_WORDS_TAKEN)),
        (record.stack, taken)
    );
}

#[test]
fn a_stack_that_nobody_knows_is_followed_to_the_end_of_its_page() {
    let placed = Placed::new(1, 6);
    one(&placed);
    placed.set_row(placed.own_row(), row::STACK_PROOF, row::NO_PROOF);
    let (record, after) = one(&placed);
    let (frames, end) = placed.stack(record.stack);
    assert!([after, FIRST, SECOND].starts_with(&frames) && !frames.is_empty(), "{frames:x?}");
    // The made-up frames may all lie in that page.
    let wanted = if frames.len() == 3 { End::Implausible } else { End::Unbounded };
    assert_eq!(end, wanted as u8);
}

#[test]
fn no_more_frames_are_recorded_than_asked_for() {
    let placed = Placed::new(1, 6);
    placed.set_most_frames(2);
    let (record, after) = one(&placed);
    assert_eq!(placed.stack(record.stack), (vec![after, FIRST], End::Full as u8));
}

#[test]
fn the_first_slow_path_leaves_a_hint_to_the_stack() {
    let placed = Placed::new(1, 6);
    let here = &raw const placed as u64;
    one(&placed);
    let hint = placed.row(placed.own_row(), row::STACK_HINT);
    assert!((here - (64 << 10)..here).contains(&hint), "{hint:#x} is not near {here:#x}");
}

#[test]
fn a_stack_without_room_is_lost_and_counted() {
    let placed = Placed::new(1, 6);
    placed.set_word(region::STACK_WORDS_TAKEN, heapattach_abi::stacks::STACK_WORDS as u64);
    let (record, _) = one(&placed);
    assert_eq!(placed.stack(record.stack), (vec![], End::Implausible as u8));
    assert_eq!(placed.word(region::STACKS_LOST), 1);
}
