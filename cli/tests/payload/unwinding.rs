//! Stacks by tables, compared with those that the C library finds.
//!
//! # Safety
//! `backtrace` of the C library writes as many addresses as it is told there is room for.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_void},
    hint::black_box,
    ptr,
};

use heapattach_abi::{kind::HookKind, memo, region, stacks::End, unwind};
use heapattach_injector::inside::Tables;
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::{Process, maps},
    shared::Shared,
};

use crate::placed::Placed;

unsafe extern "C" {
    fn backtrace(buffer: *mut *mut c_void, size: c_int) -> c_int;
}

const ROUNDS: u64 = 10_000;
const DEEPEST: usize = 50;

/// Makes tables of this very process and gives them to a payload of its own.
fn placed(ring_bits: u32) -> Placed {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let memory = Memory::open(&process).unwrap();
    let text = process.read("maps").unwrap();
    let mut tables = Tables::new(&process, &memory, &maps::parse(&text).unwrap());
    let placed = Placed::with_tables(1, ring_bits, tables.room());
    let shared = Shared::Private(RemoteAddr::new(placed.region_address()));
    let start = region::tables_at(ring_bits);
    tables.publish(&shared, &memory, start..start + tables.room()).unwrap();
    let totals = tables.totals();
    assert!(totals.modules >= 3 && totals.left_out == 0 && totals.rows > 10_000, "{totals:?}");
    assert!(totals.unknown * 100 < totals.rows, "{totals:?}");
    placed
}

/// What the C library says, and what the payload says, of one call.
struct Seen {
    expected: Vec<u64>,
    recorded: Vec<u64>,
    end: u8,
}

/// Both from here: their first frames lie in this function, all others are the same.
#[inline(never)]
fn look(placed: &Placed) -> Seen {
    placed.drain();
    let hook = HookKind::Malloc.first_hook();
    placed.hook(hook)(24, 0, 0, 0);
    let mut buffer = [ptr::null_mut(); 200];
    // SAFETY: there is room for 200.
    let count = unsafe { backtrace(buffer.as_mut_ptr(), 200) };
    let count = usize::try_from(count).unwrap();
    let records = placed.records();
    let stack = records.last().expect("a record").stack;
    let lost = placed.word(region::STACKS_LOST);
    assert_ne!(stack, 0, "{lost} lost, {} words", placed.word(region::STACK_WORDS_TAKEN));
    let (recorded, end) = placed.stack(stack);
    let expected = buffer[..count].iter().map(|at| at.addr() as u64).collect();
    Seen { expected, recorded, end }
}

type Path<'a> = &'a [u8];

/// One of many functions with frames of different sizes, half of them with a frame pointer of
/// their own making.
#[inline(never)]
fn level<const N: usize>(placed: &Placed, path: Path<'_>) -> Seen {
    let mut room = [N as u64; N];
    black_box(&mut room);
    let seen = descend(placed, path);
    black_box(&mut room);
    seen
}

#[inline(never)]
fn descend(placed: &Placed, path: Path<'_>) -> Seen {
    let Some((first, rest)) = path.split_first() else { return look(placed) };
    let seen = match first % 7 {
        0 => level::<1>(placed, rest),
        1 => level::<2>(placed, rest),
        2 => level::<5>(placed, rest),
        3 => level::<16>(placed, rest),
        4 => level::<33>(placed, rest),
        5 => level::<100>(placed, rest),
        _ => aligned(placed, rest),
    };
    black_box(seen)
}

/// Its frame aligns itself.
#[inline(never)]
fn aligned(placed: &Placed, path: Path<'_>) -> Seen {
    #[repr(align(128))]
    struct Line([u64; 16]);
    let mut line = Line([3; 16]);
    black_box(&mut line.0);
    let seen = descend(placed, path);
    black_box(&mut line.0);
    seen
}

/// Calls from changing places; answers how many stacks were not the same.
fn differences(placed: &Placed) -> u64 {
    let (mut state, mut different) = (1_u64, 0);
    let mut path = [0_u8; DEEPEST];
    for round in 0..ROUNDS {
        // The top changes more often than the bottom.
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1442695040888963407);
        let keep = usize::try_from(state >> 33).unwrap() % DEEPEST;
        let keep = if round % 16 == 0 { 0 } else { keep };
        for (number, step) in path.iter_mut().enumerate().skip(keep) {
            *step = state.to_le_bytes()[number % 8].rotate_left(u32::try_from(number % 7).unwrap());
        }
        let depth = if round % 3 == 0 { DEEPEST } else { keep + 1 };
        let seen = descend(placed, &path[..depth]);
        let is_same = seen.expected[1..] == seen.recorded[1..]
            && seen.recorded.len() > 2
            && seen.end == End::Outermost as u8;
        different += u64::from(!is_same);
        if !is_same && different == 1 {
            println!("first: {:x?}\n{:x?} end {}", seen.expected, seen.recorded, seen.end);
        }
    }
    different
}

#[test]
fn stacks_are_those_that_the_c_library_finds() {
    let placed = placed(8);
    assert_eq!(differences(&placed), 0, "of {ROUNDS}");
    // Every one of them by the help of the memo and without.
    placed.set_verify(1);
    assert_eq!(differences(&placed), 0, "of {ROUNDS}, verified");
    assert!(placed.word(region::VERIFIED) > ROUNDS / 2, "few were verified");
    assert_eq!(placed.word(region::DIFFERED), 0);
}

#[test]
fn a_wrong_row_is_noticed() {
    let placed = placed(8);
    // One rule of the cache, that of our own code, becomes another.
    differences(&placed);
    let mut changed = 0;
    for slot in 0..1 << unwind::CACHE_BITS {
        let at = region::CACHE_AT + slot * 8;
        let word = placed.word(at);
        if word != 0 {
            let longer = 1 << 12;
            placed.set_word(at, word + longer);
            changed += 1;
        }
    }
    assert!(changed > 10, "{changed} cached rules");
    assert!(differences(&placed) > ROUNDS / 10, "nobody would notice a broken table");
}

/// Arbitrary words in a thread's memo, as a program that writes out of bounds may leave them.
#[test]
fn a_memo_that_somebody_wrote_over_does_no_harm() {
    let placed = placed(8);
    let path = [4, 2, 6, 0, 5, 1];
    descend(&placed, &path);
    let memo = region::MEMOS_AT + placed.own_row() * memo::MEMO_BYTES;
    let frames = |part| {
        let part = memo::FRAMES_AT + part as usize;
        (0..memo::FRAMES).map(move |number| memo + part + number * memo::FRAME_BYTES)
    };
    let words = (0..memo::WORDS).map(|number| memo + memo::WORDS_AT + number * memo::WORD_BYTES);
    let first: Vec<usize> = frames(memo::Part::First).collect();
    let (words, heads) = (words.collect(), vec![memo + memo::FRAME_COUNT, memo + memo::WORD_COUNT]);
    // The last is an index so far out that it leads to before the memo.
    for value in [0, 1, 8, u64::MAX, 1 << 63, 1 << 40, 0x7fff_ffff_f001, (1 << 61) - (1 << 37)] {
        for places in [&first, &words, &heads] {
            // As often as a memo that was of no use waits before it is made anew.
            (0..600).for_each(|_| _ = descend(&placed, &path));
            assert_ne!(placed.word(memo + memo::FRAME_COUNT), 0, "nothing is remembered");
            places.iter().for_each(|&at| placed.set_word(at, value));
            descend(&placed, &path);
            placed.set_word(memo + memo::FRAME_COUNT, 0);
            let seen = descend(&placed, &path);
            assert_eq!(seen.expected[1..], seen.recorded[1..], "{value:#x}");
        }
    }
}
