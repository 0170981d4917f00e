//! Each remedy again and again on threads that allocate without end: blocks are as they were left, also of the allocations
//! after that.

use heapattach_tests::{
    deadline::{PATIENCE, poll},
    hazard::cycles,
};

use super::trim::{applied, apply, preloaded};
use crate::allocating::Allocating;

/// A thousand of each, and ten million allocations afterwards; the ordinary test has few of both.
const MANY: (u64, u64) = (1000, 10_000_000);

/// What is applied, in turns, to which allocator.
const REMEDIES: [(&[&str], Option<&str>); 5] = [
    (&["trim"], None),
    (&["trim"], Some("libjemalloc.so.2")),
    (&["trim"], Some("libtcmalloc.so.4")),
    (&["purge"], Some("libjemalloc.so.2")),
    (&["dirty_decay_ms=0", "dirty_decay_ms=9000"], Some("libjemalloc.so.2")),
];

fn repeated(times: u64, later: u64) {
    for (remedies, library) in REMEDIES {
        let library = library.and_then(preloaded);
        let environment: Vec<(&str, &str)> =
            library.iter().map(|library| ("LD_PRELOAD", library.as_str())).collect();
        let arguments = ["3", "5000", "waste"];
        let Some(mut program) = Allocating::of("fragmented.c", &arguments, &environment) else {
            return;
        };
        let mut effective = 0;
        for (number, remedy) in (0..times).zip(remedies.iter().cycle()) {
            let outcome = apply(program.pid(), remedy, None);
            let told = applied(&outcome);
            // A thread may have everything in use just then.
            effective += u64::from(told["error"].is_null() || told["call_us"].is_number());
            let is_told = outcome.code() == Some(0) || told["error"].is_string();
            assert!(is_told, "{remedy}, {number}: {outcome:?}");
            assert!(program.is_well(), "{remedy}, {number}: {outcome:?}");
        }
        assert!(effective * 2 > times, "{remedies:?} {library:?}: {effective} of {times}");
        let before = program.turns();
        // However slow the machine: as long as it goes on it is waited for.
        let mut last = before;
        while last < before + later {
            let went_on = poll(PATIENCE, || Some(program.turns()).filter(|now| *now > last));
            last = went_on.expect("its threads go on");
        }
        assert!(program.is_well());
        println!(
            "{remedies:?} {library:?}: {effective} of {times} had an effect; {} blocks right since",
            last - before
        );
    }
}

#[test]
fn blocks_are_as_they_were_left_under_load() {
    repeated(cycles().clamp(4, 20), 100_000);
}

#[test]
#[ignore = "an hour: a thousand of each"]
fn a_thousand_of_each_remedy_hang_nothing_and_ten_million_allocations_later_all_blocks_are_right() {
    repeated(MANY.0, MANY.1);
}
