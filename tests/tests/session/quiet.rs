//! A target that does nothing is looked at seldom, and as often as before once it does something.

use std::{
    thread,
    time::{Duration, Instant},
};

use heapattach_tests::{
    attached::Attached, command::Hooks, deadline::PATIENCE, fixture::Launch, task::slept,
};

/// The step of the fixture that allocates and frees.
const USE: u64 = 2;
/// Allocates so many blocks of 8 KiB each, one after the other, and frees each at once.
const BURST: u64 = 1;
/// Wakings of all threads of a session in a second: a session that is not quiet takes a hundred for its rings alone,
/// a quiet one ten of them and one for everything else.
const FEW: u64 = 25;
/// The same after a minute: two, and one for everything else.
const FEWER: u64 = 5;

/// How often a session wakes in a second, once that is as wanted; the fixture does something meanwhile, or not.
fn wakes(
    pids: [i32; 2],
    time: Duration,
    is_wanted: impl Fn(u64) -> bool,
    mut meanwhile: impl FnMut(),
) -> u64 {
    let slept = || pids.into_iter().map(slept).sum::<u64>();
    let began = Instant::now();
    loop {
        let (before, from) = (slept(), Instant::now());
        while from.elapsed() < time {
            meanwhile();
            thread::sleep(Duration::from_millis(20));
        }
        let millis = u64::try_from(from.elapsed().as_millis()).unwrap_or(u64::MAX);
        let times = (slept() - before) * 1000 / millis.max(1);
        if is_wanted(times) {
            return times;
        }
        assert!(began.elapsed() < 2 * PATIENCE, "{times} times a second");
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn pids(attached: &Attached) -> [i32; 2] {
    [attached.pid(), attached.tracer().as_raw()]
}

#[test]
fn a_session_of_a_target_that_does_nothing_sleeps() {
    let Some(fixture) = Launch::new("kept_pointers.c") else { return };
    let mut fixture = fixture.start();
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    let pids = pids(&attached);
    let quiet = wakes(pids, SECOND, |times| times < FEW, || ());
    let mut turns = 0;
    let busy = wakes(
        pids,
        SECOND,
        |times| times > 3 * FEW,
        || {
            fixture.step(USE, 100);
            turns += 100;
        },
    );
    let again = wakes(pids, SECOND, |times| times < FEW, || ());
    println!("{quiet} times a second, {busy} while there are samples, {again} afterwards");
    let report = attached.end();
    assert!(report.is_complete(), "{:?}", report.heap.lost);
    // Of both sets of addresses, all but what is reallocated.
    assert_eq!(report.calls_of("calloc"), 2 * turns, "{:#?}", report.functions);
    fixture.finish();
}

/// Takes more than a minute.
#[test]
#[ignore = "waits for what comes after a minute"]
fn after_a_minute_a_session_wakes_three_times_a_second() {
    let Some(fixture) = Launch::new("burst.c") else { return };
    let mut fixture = fixture.start();
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    let pids = pids(&attached);
    wakes(pids, SECOND, |times| times < FEW, || ());
    thread::sleep(Duration::from_secs(60));
    let quiet = wakes(pids, 10 * SECOND, |times| times < FEWER, || ());
    println!("{quiet} times a second");
    fixture.step(BURST, 1);
    attached.end();
    fixture.finish();
}

/// A service that polls something allocates some dozen times a second, for ever. Takes more than a minute.
#[test]
#[ignore = "waits for what comes after a minute"]
fn after_a_minute_a_few_calls_a_second_are_as_good_as_none() {
    let Some(fixture) = Launch::new("burst.c") else { return };
    let mut fixture = fixture.start();
    // A sample ends a quiet time: they are to be rare.
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--every=64MiB");
    let attached = Attached::start(command, &mut fixture);
    let (mut turns, mut blocks) = (0, 0);
    let few = wakes(
        pids(&attached),
        SECOND,
        |times| times < FEW,
        || {
            // Some twenty a second.
            if turns % 2 == 0 {
                fixture.step(BURST, 1);
                blocks += 1;
            }
            turns += 1;
        },
    );
    println!("{few} times a second");
    let report = attached.end();
    assert!(report.is_complete(), "{:?}", report.heap.lost);
    assert_eq!(report.calls_of("malloc"), blocks, "{:#?}", report.functions);
    fixture.finish();
}

/// Nothing wakes the reader: what a thread begins with has to find room in its ring, however long the look takes.
#[test]
fn a_burst_after_a_quiet_time_finds_room() {
    /// Two records each, of which a ring has room for 8,192, the last eighth for frees alone.
    const BLOCKS: u64 = 3500;
    let Some(fixture) = Launch::new("burst.c") else { return };
    let mut fixture = fixture.start();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--every=4KiB");
    let attached = Attached::start(command, &mut fixture);
    let pids = pids(&attached);
    for _ in 0..3 {
        wakes(pids, SECOND, |times| times < FEW, || ());
        fixture.step(BURST, BLOCKS);
    }
    let report = attached.end();
    assert!(report.is_complete(), "{:?}", report.heap.lost);
    assert_eq!(report.calls_of("malloc"), 3 * BLOCKS, "{:#?}", report.functions);
    fixture.finish();
}
