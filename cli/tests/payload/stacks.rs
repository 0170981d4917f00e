//! The call stack of a record: the caller, then the chain of frame pointers on this very stack.
//!
//! # Safety
//! `call_with_frames` builds a chain of two frames on its own stack and calls from there.
#![allow(unsafe_code)]

use std::arch::naked_asm;

use heapattach_abi::{kind::HookKind, region, row, stacks::End};

use crate::placed::{Placed, Record};

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

fn tell_bounds(placed: &Placed) {
    let here = &raw const placed as u64;
    let row = placed.own_row();
    placed.set_row(row, row::STACK_START, here - (64 << 10));
    placed.set_row(row, row::STACK_END, here + 64);
}

#[test]
fn without_bounds_a_stack_is_the_caller() {
    let placed = Placed::new(1, 6);
    let (record, after) = one(&placed);
    assert_eq!(placed.stack(record.stack), (vec![after], End::Unbounded as u8));
}

#[test]
fn within_bounds_the_frame_pointers_are_followed_as_far_as_they_make_sense() {
    let placed = Placed::new(1, 6);
    one(&placed);
    tell_bounds(&placed);
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
    assert_eq!(placed.stack(record.stack), (vec![], End::Unbounded as u8));
    assert_eq!(placed.word(region::STACKS_LOST), 1);
}
