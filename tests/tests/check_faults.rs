//! A check by a clone of the target whose command, or whose tracing process, is killed at its calls: the
//! target goes on as it was.

use std::{collections::HashMap, fs};

use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    page::Word,
    sample::points,
    seed::{Random, seed},
    survey::{Struck, Survey, name},
};

const DONE: i32 = 0;
const TARGET: &str = "steady.c";

fn check(fixture: &Fixture, fault: &str) -> Outcome {
    let pid = fixture.pid().to_string();
    let args = ["check", "-p", &pid, "--duration", "10ms", "--snapshot", "fork", "--json"];
    Heapattach::new(args).arg("--max-pause=60s").fault(fault).run()
}

/// The calls of an undisturbed check, by what they are; and the number of the one that clones.
fn calls() -> Option<(Vec<String>, u64)> {
    let mut fixture = Launch::new(TARGET)?.start();
    fixture.pause();
    let outcome = check(&fixture, "trace");
    fixture.resume();
    fixture.finish();
    let calls = outcome.stderr.lines().filter_map(|line| {
        let (_, call) = line.strip_prefix("heapattach: faults: call ")?.split_once(" is ")?;
        Some(call.to_owned())
    });
    let calls: Vec<_> = calls.collect();
    let cloned = (1..).zip(&calls).find(|(_, call)| *call == "clone").map(|(number, _)| number);
    Some((calls, cloned.unwrap_or_else(|| panic!("no clone in {}", outcome.stderr))))
}

/// Points around the clone and after it, to the end.
fn chosen(calls: &[String], cloned: u64) -> Vec<u64> {
    let first = cloned.saturating_sub(12);
    let behind = calls.len() as u64 - first;
    points(behind, 40, &mut Random::new(seed())).map(|point| first + point).collect()
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
    let Some((calls, cloned)) = calls() else { return };
    let survey = Survey::of(TARGET, chosen(&calls, cloned), |fixture, before, n| {
        let fault = format!("killfront:{n}");
        check(fixture, &fault);
        poll(PATIENCE, || before.trace(fixture).is_empty().then_some(()));
        assert_childless(fixture, &fault);
    });
    let Some(survey) = survey else { return };
    println!("command killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_all_well("the command is killed", |n| name(&calls, n));
}

#[test]
fn the_target_lives_when_who_checks_it_is_killed_and_can_be_cleaned() {
    let Some((calls, cloned)) = calls() else { return };
    let mut struck = HashMap::new();
    let survey = Survey::of(TARGET, chosen(&calls, cloned), |fixture, _, n| {
        let fault = format!("kill:{n}");
        fixture.pause();
        let outcome = check(fixture, &fault);
        struck.extend(Struck::read(&outcome.stderr).map(|place| (n, place)));
        fixture.page().set(Word::Pause, 0);
        fixture.advance(1);
        Heapattach::detach(fixture.pid()).run().expect(DONE);
    });
    let Some(survey) = survey else { return };
    println!("tracer killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_well_outside_windows("the tracer is killed", &calls, &struck);
}
