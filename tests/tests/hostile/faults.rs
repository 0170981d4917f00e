//! Every call of the engine fails once, and then for ever.

use std::{collections::BTreeMap, time::Duration};

use heapattach_tests::{
    command::{Heapattach, Hooks, Outcome},
    fixture::{Fixture, Launch},
    sample::points,
    seed::{Random, seed},
    survey::{Survey, name},
    trace::Before,
};

const TARGET: &str = "steady.c";
const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;
const FAILED_CLEAN: i32 = 1;
const REFUSED: i32 = 3;
const NOT_RESTORED: i32 = 7;
/// A call that fails is made again, and what follows it counts on.
const RETRIES: u64 = 5;

fn target() -> Option<Fixture> {
    Some(Launch::new(TARGET)?.start())
}

fn attach(fixture: &Fixture, hooks: Hooks, fault: &str) -> Outcome {
    // A fault for ever makes every undo wait for its last try.
    let limit = Duration::from_secs(90);
    Heapattach::attach(fixture.pid(), WINDOW, hooks).fault(fault).limit(limit).run()
}

/// The calls of an undisturbed attach and detach, by what they are.
fn calls(hooks: Hooks) -> Option<Vec<String>> {
    let mut fixture = target()?;
    // At rest, so that no stop is tried twice and a later run at rest makes the same calls.
    fixture.pause();
    let outcome = attach(&fixture, hooks, "trace").expect(DONE);
    fixture.resume();
    fixture.finish();
    let calls = outcome.calls();
    assert!(!calls.is_empty(), "no calls in {:?}", outcome.stderr);
    Some(calls)
}

fn each_call_fails_once(hooks: Hooks) {
    let Some(calls) = calls(hooks) else { return };
    let seed = seed();
    let mut outcomes = BTreeMap::<_, u32>::new();
    let points = points(calls.len() as u64 + RETRIES, 400, &mut Random::new(seed));
    let survey = Survey::of(TARGET, points, |fixture, _, n| {
        let fault = format!("fail:{n}");
        let outcome = attach(fixture, hooks, &fault);
        let code = outcome.code();
        *outcomes.entry(code).or_default() += 1;
        let allowed = [DONE, FAILED_CLEAN, REFUSED].map(Some).contains(&code);
        assert!(allowed, "{fault}: {}\n{}", outcome.status, outcome.stderr);
        let report = outcome.report();
        let said = if code == Some(DONE) { ["restored"; 2] } else { ["untouched", "restored"] };
        assert!(said.contains(&&*report.target), "{fault}: {code:?} but {report:?}");
        assert!(report.left.is_empty(), "{fault}: {:?}", report.left);
    });
    let Some(survey) = survey else { return };
    println!(
        "each call fails once ({}): {} of {} calls tried, exit codes {outcomes:?}, seed {seed}",
        hooks.name(),
        survey.tried(),
        calls.len()
    );
    survey.assert_all_well("each call fails once", |n| name(&calls, n));
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
    let Some(calls) = calls(Hooks::Auto) else { return };
    let seed = seed();
    let mut outcomes = BTreeMap::<_, u32>::new();
    let points = points(calls.len() as u64, 40, &mut Random::new(seed));
    let survey = Survey::of(TARGET, points, |fixture, _, n| {
        let fault = format!("failfrom:{n}");
        fixture.pause();
        let outcome = attach(fixture, Hooks::Auto, &fault);
        fixture.resume();
        fixture.assert_well();
        fixture.advance(1);
        let code = outcome.code();
        *outcomes.entry(code).or_default() += 1;
        match code {
            Some(NOT_RESTORED) => {
                let report = outcome.report();
                assert_eq!(report.target, "altered", "{fault}: {report:?}");
                assert!(!report.left.is_empty(), "{fault}: nothing named\n{}", outcome.stderr);
                Heapattach::detach(fixture.pid()).run().expect(DONE);
            }
            Some(FAILED_CLEAN | REFUSED | DONE) => {}
            _ => panic!("{fault}: {}\n{}", outcome.status, outcome.stderr),
        }
    });
    let Some(survey) = survey else { return };
    println!(
        "calls fail for ever: from {} of {} calls on, exit codes {outcomes:?}, seed {seed}",
        survey.tried(),
        calls.len()
    );
    survey.assert_all_well("all calls fail from one on", |n| name(&calls, n));
    // A slow machine has time for a few only, all of which may be early ones.
    let is_enough = survey.tried() >= 20;
    let lasted = outcomes.contains_key(&Some(NOT_RESTORED));
    assert!(lasted || !is_enough, "no fault lasted: {outcomes:?}");
}

#[test]
fn what_fails_for_ever_after_the_last_unmapping_is_named_if_anything_is_left() {
    let Some(calls) = calls(Hooks::Auto) else { return };
    let last = calls.iter().rposition(|call| call == "munmap").expect("the home is unmapped");
    let points = last as u64 + 1..=calls.len() as u64;
    let mut outcomes = BTreeMap::<_, u32>::new();
    let survey = Survey::of(TARGET, points, |fixture, _, n| {
        let fault = format!("failfrom:{n}");
        fixture.pause();
        let outcome = attach(fixture, Hooks::Auto, &fault);
        fixture.resume();
        let (code, report) = (outcome.code(), outcome.report());
        *outcomes.entry(code).or_default() += 1;
        let said = (report.target.as_str(), report.left.is_empty());
        let expected = [(Some(NOT_RESTORED), ("altered", false)), (Some(DONE), ("restored", true))];
        assert!(expected.contains(&(code, said)), "{fault}: {code:?} and {report:?}");
        Heapattach::detach(fixture.pid()).run().expect(DONE);
    });
    let Some(survey) = survey else { return };
    survey.assert_all_well("all calls fail from one on", |n| name(&calls, n));
    // Threads that could not be given back are named.
    assert!(outcomes.contains_key(&Some(NOT_RESTORED)), "nothing was left: {outcomes:?}");
}

#[test]
fn a_fault_beyond_the_last_call_changes_nothing() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    attach(&fixture, Hooks::Auto, "fail:1000000").expect(DONE);
    attach(&fixture, Hooks::Auto, "failfrom:1000000").expect(DONE);
    before.assert_equal(&mut fixture, "after faults that never came");
    fixture.finish();
}
