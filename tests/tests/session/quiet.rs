//! A target that does nothing is looked at seldom, and as often as before once it does something.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use heapattach_tests::{attached::Attached, command::Hooks, deadline::PATIENCE, fixture::Launch};

/// The step of the fixture that allocates and frees.
const USE: u64 = 2;
/// A session that is not quiet takes a hundred for its rings alone.
const FEW: u64 = 70;

/// How often the threads of a process slept.
fn slept(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let count = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(|task| fs::read_to_string(task.path().join("status")).map_or(0, count)).sum()
}

/// How often a session wakes in a second, once that is as wanted; the fixture does something meanwhile, or not.
fn wakes(pid: i32, is_wanted: impl Fn(u64) -> bool, mut meanwhile: impl FnMut()) -> u64 {
    let began = Instant::now();
    loop {
        let (before, from) = (slept(pid), Instant::now());
        while from.elapsed() < Duration::from_secs(1) {
            meanwhile();
            thread::sleep(Duration::from_millis(20));
        }
        let millis = u64::try_from(from.elapsed().as_millis()).unwrap_or(u64::MAX);
        let times = (slept(pid) - before) * 1000 / millis.max(1);
        if is_wanted(times) {
            return times;
        }
        assert!(began.elapsed() < PATIENCE, "{times} times a second");
    }
}

#[test]
fn a_session_of_a_target_that_does_nothing_sleeps() {
    let Some(fixture) = Launch::new("kept_pointers.c") else { return };
    let mut fixture = fixture.start();
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    let tracer = attached.tracer().as_raw();
    let quiet = wakes(tracer, |times| times < FEW, || ());
    let mut turns = 0;
    let busy = wakes(
        tracer,
        |times| times > FEW,
        || {
            fixture.step(USE, 100);
            turns += 100;
        },
    );
    let again = wakes(tracer, |times| times < FEW, || ());
    println!("{quiet} times a second, {busy} while there are samples, {again} afterwards");
    let report = attached.end();
    assert!(report.is_complete(), "{:?}", report.heap.lost);
    // Of both sets of addresses, all but what is reallocated.
    assert_eq!(report.calls_of("calloc"), 2 * turns, "{:#?}", report.functions);
    fixture.finish();
}
