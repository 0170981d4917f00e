//! The instructions to write down what happened, and to read it again.

use crate::format::coded_events::{Decoder, Encoder};
use crate::speed::{chance, program};
use heapattach_instruction_count::{assert_few, count};
use heapattach_profile::{Change, Journal, Sheet, Tick};

const CHANGES: usize = 200;

/// What comes before the count: models have learned something by then.
const BEFORE: u64 = 20_000;

/// Writes some changes down and reads them; each may take so many instructions.
fn assert_both_few(name: &str, is_plain: bool, [write, read]: [u64; 2], all: &[(u64, Change)]) {
    let mut encoder = Encoder::new(0);
    encoder.set_plain(is_plain);
    let mut note = |changes: &[(u64, Change)]| {
        for (now, change) in changes {
            encoder.set_now(*now);
            encoder.note(change);
        }
        encoder.finish()
    };
    let (before, counted) = all.split_at(all.len() - CHANGES);
    let before = note(before);
    let mut block = Vec::new();
    assert_few(&format!("{name}, written"), write, || {
        block = note(counted);
        CHANGES as u64
    });
    let (mut decoder, mut sheet) = (Decoder::default(), Sheet::new(1000, 80));
    sheet.rows.extend([0; 200].into_iter());
    let mut decode = |block: &[u8]| {
        let apply = |now, change: &Change| {
            sheet.apply(change, Tick::of(now));
            true
        };
        assert_eq!(decoder.decode(block, apply), Some(()));
        CHANGES as u64
    };
    decode(&before);
    assert_few(&format!("{name}, read and summed up"), read, || decode(&block));
}

#[test]
fn what_happened_is_written_and_read_with_few_instructions() {
    let (mut loops, mut random) = (Vec::new(), Vec::new());
    program(BEFORE + CHANGES as u64, |now, change| loops.push((now, *change)));
    chance(BEFORE + CHANGES as u64, |now, change| random.push((now, *change)));
    assert_both_few("loops, foreseen", false, [900, 1350], &loops);
    assert_both_few("loops, as it is", true, [190, 700], &loops);
    assert_both_few("chance, foreseen", false, [5300, 5300], &random);
    assert_both_few("chance, as it is", true, [190, 700], &random);
}

/// Instructions to write down a change, and to read it, after so many others.
fn cost_after(before: u64) -> [u64; 2] {
    let mut all = Vec::new();
    program(before + CHANGES as u64, |now, change| all.push((now, *change)));
    let (before, counted) = all.split_at(all.len() - CHANGES);
    let mut encoder = Encoder::new(0);
    let mut note = |changes: &[(u64, Change)]| {
        for (now, change) in changes {
            encoder.set_now(*now);
            encoder.note(change);
        }
        encoder.finish()
    };
    let before = note(before);
    let mut block = Vec::new();
    let written = count(|| block = note(counted));
    let (mut decoder, mut told) = (Decoder::default(), 0);
    let mut decode = |block: &[u8]| {
        assert_eq!(decoder.decode(block, |_, _| true), Some(()));
        told += 1;
    };
    decode(&before);
    let read = count(|| decode(&block));
    assert_eq!(told, 2);
    [written, read].map(|instructions| instructions / CHANGES as u64)
}

#[test]
fn a_change_takes_as_many_instructions_in_a_session_four_times_as_long() {
    let (short, long) = (cost_after(BEFORE), cost_after(4 * BEFORE));
    for (way, short, long) in [("written", short[0], long[0]), ("read", short[1], long[1])] {
        println!("a change {way}: {short} instructions, {long} after four times as many");
        assert!(long <= short + short / 4, "{way}: {long} instead of {short}");
    }
}
