//! A check by a clone of the target whose command is killed at its calls: the target goes on as it was,
//! and no child of it is left.

use std::fs;

use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    sample::points,
    seed::{Random, seed},
    survey::{Survey, name},
};

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
