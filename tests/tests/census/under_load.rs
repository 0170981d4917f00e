//! Moments of a program whose threads free and allocate without end, and have the same blocks at any time, but for one
//! each: each moment has them, and the program is as it was before them.

use std::collections::BTreeMap;

use heapattach_tests::{
    command::Heapattach,
    fixture::{Fixture, Launch},
    trace::Before,
};
use serde_json::Value;

const DONE: i32 = 0;
/// Some walk could not be certain.
const DOUBTED: i32 = 6;
const THREADS: u64 = 3;
/// Blocks of each size that a thread has.
const OF_EACH: u64 = 8;
/// Bytes that are requested, as the fixture has them.
const SIZES: [u64; 11] = [24, 72, 136, 248, 504, 1000, 2024, 5000, 20008, 60008, 300_000];
/// A larger one is a mapping of its own.
const MAPPED: u64 = 256 << 10;
/// One moment in so many may be doubted.
const ONE_DOUBT_IN: u64 = 10;

/// What a block of glibc's has room for at least.
fn usable(size: u64) -> u64 {
    match size >= MAPPED {
        true => (size + 16).next_multiple_of(4096) - 16,
        false => (size + 8).next_multiple_of(16) - 8,
    }
}

/// Blocks in use by usable size; `None` if that is doubted.
fn look(fixture: &Fixture, snapshot: &str) -> Option<BTreeMap<u64, u64>> {
    let pid = fixture.pid().to_string();
    let options = ["--snapshot", snapshot, "--max-pause=60s"];
    let outcome = Heapattach::new([&["heap", "-p", &pid, "--json"], &options[..]].concat()).run();
    assert!(matches!(outcome.code(), Some(DONE | DOUBTED)), "{outcome:?}");
    let document: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(document["moment"]["method"], snapshot, "{}", document["moment"]);
    if outcome.code() == Some(DOUBTED) {
        let doubts = &document["allocators"][0]["doubts"];
        assert!(doubts.to_string().contains("look again"), "{doubts}");
        return None;
    }
    let number = |value: &Value| value.as_u64().expect("a number");
    let rows = document["sizes"].as_array().expect("sizes").iter();
    Some(rows.map(|row| (number(&row["size"]), number(&row["used"]))).collect())
}

/// Those of one requested size: a rest that is too small for a block stays with it.
fn of(blocks: &BTreeMap<u64, u64>, size: u64) -> u64 {
    let [least, most] = [usable(size), usable(size) + 16];
    [least, most].into_iter().filter_map(|size| blocks.get(&size)).sum()
}

fn moments(count: u64) {
    let Some(launch) = Launch::new("refilled.c") else { return };
    let mut fixture = launch.arg(THREADS.to_string()).start();
    let before = Before::of(&mut fixture).loose();
    fixture.pause();
    let still = look(&fixture, "fork").expect("a heap that stands still");
    fixture.resume();
    for size in SIZES {
        let found = of(&still, size);
        // The C library has a few of its own.
        assert!((THREADS * OF_EACH..THREADS * OF_EACH + 12).contains(&found), "{size}: {still:?}");
    }
    let all: u64 = still.values().sum();
    let mut doubted = 0;
    for moment in 0..count {
        fixture.advance(50);
        // By a clone, and by what was copied while the threads went on.
        let snapshot = if moment % 2 == 0 { "fork" } else { "early" };
        let Some(blocks) = look(&fixture, snapshot) else {
            doubted += 1;
            continue;
        };
        for size in SIZES {
            let (found, still) = (of(&blocks, size), of(&still, size));
            let is_near = still.abs_diff(found) <= THREADS;
            assert!(
                is_near,
                "moment {moment}: {found} of {size} bytes, {still} before: {blocks:?}"
            );
        }
        // What is being cut is told as two.
        let found: u64 = blocks.values().sum();
        assert!(
            found.abs_diff(all) <= THREADS,
            "moment {moment}: {found}, {all} before: {blocks:?}"
        );
    }
    println!("{doubted} of {count} moments were doubted");
    fixture.pause();
    let after = look(&fixture, "fork").expect("a heap that stands still");
    assert_eq!(after.values().sum::<u64>(), all, "{after:?}, {still:?}");
    fixture.resume();
    before.assert_equal(&mut fixture, "after its moments");
    fixture.finish();
    assert!(doubted * ONE_DOUBT_IN <= count, "{doubted} of {count} moments");
}

#[test]
fn each_moment_has_the_blocks_that_threads_have_at_any_time() {
    moments(20);
}

/// `cargo test -p heapattach-tests --test census -- --ignored --nocapture a_thousand_moments`
#[test]
#[ignore = "takes minutes"]
fn a_thousand_moments_have_them() {
    moments(1000);
}
