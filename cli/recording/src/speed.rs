//! How many changes a second are written down, and read again; how large they are.

use std::time::Instant;

use crate::format::{
    block::{Content, Effort, encode},
    coded_events::{Decoder, Encoder},
};
use heapattach_profile::{Change, Journal, Kind, RowId, Sheet, Tick};

/// Tells changes, each with its time.
type Program<'a> = dyn Fn(&mut dyn FnMut(u64, &Change)) + 'a;

/// A program of a hundred loops, each with some kinds of blocks of its own.
pub fn program(changes: u64, mut tell: impl FnMut(u64, &Change)) {
    let mut random = 1_u64;
    let mut told = 0;
    while told < changes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let own = u32::try_from(random >> 33).unwrap_or(0) % 100;
        let now = told / 2000;
        for turn in 0..10 + random % 50 {
            for row in own..own + 3 {
                let kind = Kind::new(RowId(row), 16 + u64::from(row * 8) + turn % 2, 1);
                tell(now, &Change::Allocated { kind, kept: true, exchanged: false });
                tell(now, &Change::Freed { kind, birth: Tick::of(now) });
                told += 2;
            }
        }
    }
}

/// An unpredictable program of two hundred places: any size, any of 1,000 blocks is freed.
pub fn chance(changes: u64, mut tell: impl FnMut(u64, &Change)) {
    let mut random = 1_u64;
    let mut held = vec![None; 1000];
    for told in 0..changes / 2 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (own, size) =
            (u32::try_from(random >> 40).unwrap_or(0) % 200, 16 + (random >> 20) % 4081);
        let now = told / 1000;
        let kind = Kind::new(RowId(own), size, 1);
        let place = &mut held[usize::try_from(random >> 50).unwrap_or(0) % 1000];
        if let Some((kind, birth)) = place.replace((kind, Tick::of(now))) {
            tell(now, &Change::Freed { kind, birth });
        }
        tell(now, &Change::Allocated { kind, kept: true, exchanged: false });
    }
}

#[test]
#[ignore = "a measurement: cargo test --release -p heapattach-recording --lib speed -- --ignored --nocapture"]
fn changes_a_second() {
    let tell = |name: &str, is_plain, program: &Program<'_>| {
        println!("{name}: {}", measure(is_plain, program));
    };
    const CHANGES: u64 = 10_000_000;
    for _ in 0..3 {
        tell("loops, foreseen", false, &|note| program(CHANGES, note));
        tell("loops, as it is", true, &|note| program(CHANGES, note));
        tell("chance, foreseen", false, &|note| chance(CHANGES, note));
        tell("chance, as it is", true, &|note| chance(CHANGES, note));
    }
}

fn measure(is_plain: bool, program: &Program<'_>) -> String {
    let (mut encoder, mut blocks, mut bytes) = (Encoder::new(0), Vec::new(), 0);
    encoder.set_plain(is_plain);
    let begin = Instant::now();
    let mut count = 0;
    program(&mut |now, change| {
        count += 1;
        encoder.set_now(now);
        encoder.note(change);
        if encoder.is_much() {
            blocks.push(encoder.finish());
        }
    });
    blocks.push(encoder.finish());
    let rate = |begin: Instant| f64::from(count) / begin.elapsed().as_secs_f64() / 1e6;
    let written = rate(begin);
    let effort = if is_plain { Effort::Little } else { Effort::None };
    let begin = Instant::now();
    blocks.iter().for_each(|block| bytes += encode(Content::Changes, block, effort).unwrap().len());
    let packed = rate(begin);
    let mut sheet = Sheet::new(1000, 80);
    sheet.rows.extend([0; 200].into_iter());
    let mut decoder = Decoder::default();
    let begin = Instant::now();
    for block in &blocks {
        let whole = decoder.decode(block, |now, change| {
            sheet.apply(change, Tick::of(now));
            true
        });
        assert_eq!(whole, Some(()));
    }
    format!(
        "{written:.1} million changes/s written, {packed:.1} compressed, {:.1} read and added up; \
         {:.3} bytes a change",
        rate(begin),
        bytes as f64 / f64::from(count)
    )
}
