//! How many changes a second are written down, and read again; how large they are.

use std::time::Instant;

use super::{
    block::{Content, Effort, encode},
    changes::{Decoder, Encoder},
};
use crate::profile::{Change, Journal, Kind, RowId, Sheet, Tick};

/// A program of a hundred loops, each with some kinds of blocks of its own.
fn program(changes: u64, mut tell: impl FnMut(u64, &Change)) {
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

#[test]
#[ignore = "a measurement: cargo test --release -p heapattach --lib recording::speed -- --ignored --nocapture"]
fn changes_a_second() {
    const CHANGES: u64 = 20_000_000;
    let (mut encoder, mut blocks, mut bytes) = (Encoder::new(0), Vec::new(), 0);
    let begin = Instant::now();
    let mut count = 0;
    program(CHANGES, |now, change| {
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
    let begin = Instant::now();
    blocks
        .iter()
        .for_each(|block| bytes += encode(Content::Changes, block, Effort::None).unwrap().len());
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
    println!(
        "{written:.0} million changes/s written, {packed:.0} compressed, {:.0} read and added up; \
         {:.3} bytes a change",
        rate(begin),
        bytes as f64 / f64::from(count)
    );
}
