//! How many blocks are samples: as many as chance wants.

use std::thread;

use heapattach_abi::{kind::HookKind, row};

use crate::{
    originals::{Call, repeat},
    placed::Placed,
};

const INTERVAL: u64 = 4096;
const SIZE: u64 = 64;
const CALLS: u64 = 1_000_000;

/// Fails if of so many calls not about as many were samples as should be.
fn assert_likely(calls: u64, samples: u64, what: &str) {
    let chance = 1.0 - (-(SIZE as f64) / INTERVAL as f64).exp();
    let mean = calls as f64 * chance;
    let deviation = (mean * (1.0 - chance)).sqrt();
    let off = (samples as f64 - mean) / deviation;
    println!("{what}: {samples} samples, {mean:.0} expected, {off:+.2} standard deviations");
    assert!(off.abs() < 4.0, "{what}: {samples} samples, {mean:.0} expected");
}

fn call(malloc: Call, times: u64) {
    repeat(times, || malloc(SIZE, 0, 0, 0));
}

/// Records are only counted: they are the stamps that were given.
fn samples(placed: &Placed) -> u64 {
    assert_eq!(placed.total(row::DROPPED_BLOCKS), 0);
    placed.word(heapattach_abi::region::STAMP)
}

/// The hooks seed with the thread pointer, which differs each time; the salts here replace it.
fn seeded(salt: u64, shared: bool) -> (Placed, Call) {
    let placed = Placed::new(INTERVAL, 16);
    if shared {
        placed.use_up_rows();
    }
    let malloc = placed.first(HookKind::Malloc);
    malloc(0, 0, 0, 0);
    let row = if shared { 0 } else { placed.own_row() };
    placed.set_row(row, row::RANDOM, salt.wrapping_mul(0x2545_f491_4f6c_dd1d));
    // At once, so that the first distance is drawn from it.
    placed.set_row(row, row::COUNTDOWN, 0);
    malloc(1, 0, 0, 0);
    (placed, malloc)
}

#[test]
fn as_many_blocks_are_samples_as_should_be() {
    for (salt, shared) in (1..=5).flat_map(|salt| [(salt, false), (salt, true)]) {
        let (placed, malloc) = seeded(salt, shared);
        let before = samples(&placed);
        call(malloc, CALLS);
        assert_likely(CALLS, samples(&placed) - before, &format!("salt {salt}, shared {shared}"));
    }
}

#[test]
fn salts_make_other_samples() {
    let first = |salt: u32| {
        let placed = Placed::new(INTERVAL, 16);
        placed.enable(INTERVAL, salt);
        call(placed.first(HookKind::Malloc), 1);
        placed.row(placed.own_row(), row::RANDOM)
    };
    let drawn: std::collections::BTreeSet<_> = (0..20).map(first).collect();
    assert_eq!(drawn.len(), 20);
}

#[test]
fn threads_that_share_a_row_make_as_many_samples_together() {
    const THREADS: u64 = 4;
    let (placed, malloc) = seeded(9, true);
    let before = samples(&placed);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| call(malloc, CALLS / THREADS));
        }
    });
    assert_likely(CALLS, samples(&placed) - before, "four threads in one row");
}

#[test]
fn a_changed_interval_is_followed() {
    let placed = Placed::new(INTERVAL << 8, 16);
    let malloc = placed.first(HookKind::Malloc);
    call(malloc, CALLS);
    placed.set_interval(INTERVAL, 1);
    // A large block leads through the slow path, where the thread goes over.
    malloc(INTERVAL << 8, 0, 0, 0);
    let row = placed.own_row();
    placed.set_row(row, row::RANDOM, 77);
    let before = samples(&placed);
    call(malloc, CALLS);
    assert_likely(CALLS, samples(&placed) - before, "after the change");
}
