//! Every call of the engine fails once, and then for ever.

use std::{collections::BTreeMap, time::Duration};

use heapattach_tests::{
    attached::INTERRUPTED,
    command::{Heapattach, Hooks, Outcome},
    fixture::{Fixture, Launch},
    sample::points,
    seed::{Random, seed},
    trace::Before,
};

const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;
const FAILED_CLEAN: i32 = 1;
const REFUSED: i32 = 3;
const NOT_RESTORED: i32 = 7;
/// A call that fails is made again, and what follows it counts on.
const RETRIES: u64 = 5;

fn target() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

fn attach(fixture: &Fixture, hooks: Hooks, fault: &str) -> Outcome {
    // A fault for ever makes every undo wait for its last try.
    let limit = Duration::from_secs(90);
    Heapattach::attach(fixture.pid(), WINDOW, hooks).fault(fault).limit(limit).run()
}

/// How many calls an undisturbed attach and detach make.
fn calls(fixture: &Fixture, hooks: Hooks) -> u64 {
    let outcome = attach(fixture, hooks, "count").expect(DONE);
    let said = outcome.stderr.lines().find_map(|line| {
        line.strip_prefix("heapattach: faults: ")?.strip_suffix(" calls")?.parse().ok()
    });
    said.unwrap_or_else(|| panic!("no number of calls in {:?}", outcome.stderr))
}

fn each_call_fails_once(hooks: Hooks) {
    let Some(mut fixture) = target() else { return };
    let (seed, before) = (seed(), Before::of(&mut fixture));
    let calls = calls(&fixture, hooks);
    let (mut tried, mut outcomes) = (0, BTreeMap::<_, u32>::new());
    for n in points(calls + RETRIES, 400, &mut Random::new(seed)) {
        let fault = format!("fail:{n}");
        let outcome = attach(&fixture, hooks, &fault);
        let code = outcome.code();
        if ![DONE, FAILED_CLEAN, REFUSED].map(Some).contains(&code) {
            fixture.fail(&format!("{fault}: {}\n{}", outcome.status, outcome.stderr));
        }
        let report = outcome.report();
        let said = if code == Some(DONE) { ["restored"; 2] } else { ["untouched", "restored"] };
        assert!(said.contains(&&*report.target), "{fault}: {code:?} but {report:?}");
        assert!(report.left.is_empty(), "{fault}: {:?}", report.left);
        before.assert_equal(&mut fixture, &format!("after {fault} ({code:?}), seed {seed}"));
        fixture.advance(1);
        tried += 1;
        *outcomes.entry(code).or_default() += 1;
    }
    println!(
        "each call fails once ({}): {tried} of {calls} calls tried, exit codes {outcomes:?}, \
         seed {seed}",
        hooks.name()
    );
    fixture.finish();
}

#[test]
fn each_call_fails_once_with_automatic_hooks() {
    each_call_fails_once(Hooks::Auto);
}

#[test]
fn each_call_fails_once_with_slots() {
    each_call_fails_once(Hooks::Slots);
}

#[test]
fn all_calls_fail_from_one_on_and_what_is_left_is_named_and_can_be_cleaned() {
    let Some(mut fixture) = target() else { return };
    let (seed, before) = (seed(), Before::of(&mut fixture));
    let calls = calls(&fixture, Hooks::Auto);
    let (mut tried, mut outcomes) = (0, BTreeMap::<_, u32>::new());
    for n in points(calls, 40, &mut Random::new(seed)) {
        let fault = format!("failfrom:{n}");
        let outcome = attach(&fixture, Hooks::Auto, &fault);
        fixture.assert_well();
        fixture.advance(1);
        let code = outcome.code();
        match code {
            Some(NOT_RESTORED) => {
                let report = outcome.report();
                assert_eq!(report.target, "altered", "{fault}: {report:?}");
                assert!(!report.left.is_empty(), "{fault}: nothing named\n{}", outcome.stderr);
                Heapattach::detach(fixture.pid()).run().expect(DONE);
            }
            Some(FAILED_CLEAN | REFUSED | DONE) => {}
            _ => fixture.fail(&format!("{fault}: {}\n{}", outcome.status, outcome.stderr)),
        }
        before.assert_equal(&mut fixture, &format!("after {fault} ({code:?}), seed {seed}"));
        tried += 1;
        *outcomes.entry(code).or_default() += 1;
    }
    println!(
        "calls fail for ever: from {tried} of {calls} calls on, exit codes {outcomes:?}, seed {seed}"
    );
    assert!(outcomes.contains_key(&Some(NOT_RESTORED)), "no fault lasted: {outcomes:?}");
    fixture.finish();
}

#[test]
fn a_fault_beyond_the_last_call_changes_nothing() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    attach(&fixture, Hooks::Auto, "fail:1000000").expect(DONE);
    attach(&fixture, Hooks::Auto, "failfrom:1000000").expect(DONE);
    before.assert_equal(&mut fixture, "after faults that never came");
    // Else the tests above would take an interruption for a failure.
    const { assert!(INTERRUPTED != FAILED_CLEAN) };
    fixture.finish();
}
