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

/// What is applied, in turns, to which allocator, with which setting.
#[derive(Clone, Copy)]
struct Case {
    remedies: &'static [&'static str],
    library: Option<&'static str>,
    setting: (&'static str, &'static str),
    mood: &'static str,
}

const WASTE: &str = "waste";
const NONE: (&str, &str) = ("HEAPATTACH_TEST", "1");
const GLIBC: Case = Case { remedies: &["trim"], library: None, setting: NONE, mood: WASTE };
const JEMALLOC: Option<&str> = Some("libjemalloc.so.2");
const TRIM: Case = Case { remedies: &["trim"], library: JEMALLOC, setting: NONE, mood: WASTE };
const PURGE: Case = Case { remedies: &["purge"], library: JEMALLOC, setting: NONE, mood: WASTE };
const DECAY: Case = Case {
    remedies: &["dirty_decay_ms=0", "dirty_decay_ms=9000"],
    library: JEMALLOC,
    setting: NONE,
    mood: WASTE,
};
/// Beside threads that load libraries, and threads that start threads, without end.
const BACKGROUND: Case = Case {
    remedies: &["background_thread=true", "background_thread=false"],
    library: JEMALLOC,
    setting: NONE,
    mood: "storm",
};
/// Else caches of threads keep all that is free.
const TCMALLOC: Case = Case {
    remedies: &["trim"],
    library: Some("libtcmalloc.so.4"),
    setting: ("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "524288"),
    mood: WASTE,
};

fn repeated(case: Case, times: u64, later: u64) {
    let Case { remedies, library, setting, mood } = case;
    let wanted = library.is_some();
    let library = library.and_then(preloaded);
    if wanted && library.is_none() {
        return;
    }
    let preload = library.iter().map(|library| ("LD_PRELOAD", library.as_str()));
    let environment: Vec<(&str, &str)> = preload.chain([setting]).collect();
    let arguments = ["3", "5000", mood];
    let Some(mut program) = Allocating::of("fragmented.c", &arguments, &environment) else {
        return;
    };
    let mut effective = 0;
    // On a full machine a thread is seldom where a function may be called: then there are more turns, until so many had an effect.
    for (number, remedy) in (0..10 * times).zip(remedies.iter().cycle()) {
        if number >= times && effective * 2 > times {
            break;
        }
        let outcome = apply(program.pid(), remedy, None);
        let told = applied(&outcome);
        // A thread may have everything in use just then; a setting is made or not.
        let was_called = told["call_us"].is_number() && !remedy.contains('=');
        effective += u64::from(told["error"].is_null() || was_called);
        let is_told = outcome.code() == Some(0) || told["error"].is_string();
        assert!(is_told, "{remedy}, {number}: {outcome:?}");
        assert!(program.is_well(), "{remedy}, {number}: {outcome:?}");
    }
    assert!(effective * 2 > times, "{remedies:?} {library:?}: {effective} for {times}");
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

#[test]
fn blocks_are_as_they_were_left_under_load() {
    for case in [GLIBC, TRIM, PURGE, DECAY, TCMALLOC, BACKGROUND] {
        repeated(case, cycles().clamp(4, 20), 100_000);
    }
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_trims_of_glibc() {
    repeated(GLIBC, MANY.0, MANY.1);
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_trims_of_jemalloc() {
    repeated(TRIM, MANY.0, MANY.1);
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_trims_of_tcmalloc() {
    repeated(TCMALLOC, MANY.0, MANY.1);
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_purges_of_jemalloc() {
    repeated(PURGE, MANY.0, MANY.1);
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_settings_of_decay() {
    repeated(DECAY, MANY.0, MANY.1);
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_settings_of_background_threads() {
    repeated(BACKGROUND, MANY.0, MANY.1);
}
