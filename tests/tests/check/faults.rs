//! A check by a clone of the target, or by an early copy of it, whose command, or whose tracing process, is killed at its calls: the
//! target goes on as it was.

use std::fs;

use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    page::Word,
    sample::points,
    seed::{Random, seed},
    survey::{Survey, name},
};

const DONE: i32 = 0;
const TARGET: &str = "steady.c";
/// Threads that wait for room in a ring that is read no more leave at once: as long as they may wait for
/// it would be 40 looks and more.
const MOST_LOOKS: usize = 20;

/// What becomes of the clone, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    LookedAt,
    /// Its time is over when shared memory is copied beside it.
    Discarded,
    /// There is none: memory is copied early.
    Early,
}

fn check(fixture: &Fixture, way: Use, fault: &str) -> Outcome {
    let pid = fixture.pid().to_string();
    let snapshot = if way == Use::Early { "early" } else { "fork" };
    let args = ["check", "-p", &pid, "--duration", "10ms", "--snapshot", snapshot, "--json"];
    let spent = if way == Use::Discarded { "share" } else { "" };
    Heapattach::new(args).arg("--max-pause=60s").env("HEAPATTACH_SPENT", spent).fault(fault).run()
}

/// The calls of an undisturbed check, by what they are; and the number of the one that clones, or has writes watched.
fn calls(way: Use) -> Option<(Vec<String>, u64)> {
    let mut fixture = Launch::new(TARGET)?.start();
    fixture.pause();
    let outcome = check(&fixture, way, "trace");
    assert_eq!(outcome.stdout.contains("given up"), way == Use::Discarded, "{}", outcome.stdout);
    fixture.resume();
    fixture.finish();
    let calls = outcome.calls();
    let first = if way == Use::Early { "userfaultfd" } else { "clone" };
    let cloned = (1..).zip(&calls).find(|(_, call)| *call == first).map(|(number, _)| number);
    Some((calls, cloned.unwrap_or_else(|| panic!("no clone in {}", outcome.stderr))))
}

/// Points around the clone and after it, to the end; as they are tried, until the time for them is over.
fn chosen(calls: &[String], cloned: u64) -> impl Iterator<Item = u64> + use<> {
    let first = cloned.saturating_sub(12);
    let behind = calls.len() as u64 - first;
    points(behind, 40, &mut Random::new(seed())).map(move |point| first + point)
}

fn children(fixture: &Fixture) -> String {
    let tasks = fs::read_dir(format!("/proc/{}/task", fixture.pid())).expect("it lives");
    let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("children"));
    tasks.filter_map(Result::ok).filter_map(|task| read(task).ok()).collect()
}

fn assert_childless(fixture: &Fixture, fault: &str) {
    let is_clean = poll(PATIENCE, || children(fixture).is_empty().then_some(()));
    assert!(is_clean.is_some(), "{fault}: left are {}", children(fixture));
}

#[test]
fn the_check_is_undone_when_its_command_is_killed() {
    let Some((calls, cloned)) = calls(Use::LookedAt) else { return };
    let survey = Survey::of(TARGET, chosen(&calls, cloned), |fixture, before, n| {
        let fault = format!("killfront:{n}");
        check(fixture, Use::LookedAt, &fault);
        poll(PATIENCE, || before.trace(fixture).is_empty().then_some(()));
        assert_childless(fixture, &fault);
    });
    let Some(survey) = survey else { return };
    println!("command killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_all_well("the command is killed", |n| name(&calls, n));
}

/// Kills the tracing process at each of `points`; what is left can be cleaned.
fn survey_kills(way: Use, points: impl IntoIterator<Item = u64>, calls: &[String]) {
    let survey = Survey::of(TARGET, points, |fixture, _, n| {
        let fault = format!("kill:{n}");
        fixture.pause();
        let _ = check(fixture, way, &fault);
        fixture.page().set(Word::Pause, 0);
        fixture.advance(1);
        let looks = Heapattach::detach(fixture.pid()).run().expect(DONE).report().stops.len();
        assert!(looks <= MOST_LOOKS, "{fault}: {looks} looks");
    });
    let Some(survey) = survey else { return };
    println!("tracer killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_all_well("the tracer is killed", |n| name(calls, n));
}

#[test]
fn the_target_lives_when_who_checks_it_is_killed_and_can_be_cleaned() {
    let Some((calls, cloned)) = calls(Use::LookedAt) else { return };
    survey_kills(Use::LookedAt, chosen(&calls, cloned), &calls);
}

#[test]
fn the_target_lives_when_who_copies_it_early_is_killed_and_can_be_cleaned() {
    let Some((calls, watched)) = calls(Use::Early) else { return };
    survey_kills(Use::Early, chosen(&calls, watched), &calls);
}

#[test]
fn the_target_lives_when_who_gives_a_clone_up_is_killed_at_any_call_of_that() {
    let Some((calls, cloned)) = calls(Use::Discarded) else { return };
    let taken_in = (1..).zip(&calls).filter(|(_, call)| *call == "wait4").map(|(at, _)| at).last();
    // From the clone on, to where its end was taken in and the borrowed thread given back.
    let last = (taken_in.expect("it was given up") + 12).min(calls.len() as u64);
    let all = points(last - cloned + 1, usize::MAX, &mut Random::new(seed()));
    survey_kills(Use::Discarded, all.map(|point| cloned + point - 1), &calls);
}
