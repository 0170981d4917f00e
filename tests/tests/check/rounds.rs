//! `heapattach check --every`: what each of several checks finds is the truth of its moment, and the
//! process goes on as if there had been none.

use std::process::Command;

use heapattach_tests::{
    check::{Leaks, Stepping},
    command::{Heapattach, Outcome, Running},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    real::{Server, StartError, redis},
    skip::skip,
    trace::Before,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const STEPS: u64 = 5;
/// The machine may be slow; that is not what is tested.
const ANY_PAUSE: &str = "--max-pause=60s";

/// Bytes and blocks that are leaked after so many steps.
fn truth(steps: u64) -> (u64, u64) {
    let late = steps.saturating_sub(2);
    match steps {
        0 => (0, 0),
        _ => (5000 + 400 * steps + 1000 * late, 1 + 4 * steps + late),
    }
}

/// The numbers of the checks that were told so far.
fn told(command: &Running) -> Vec<u64> {
    numbers(&command.talk())
}

fn numbers(talk: &str) -> Vec<u64> {
    let lines = talk.lines().filter_map(|line| line.strip_prefix("heapattach: check "));
    lines.filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
}

/// Waits for a check that was begun after now; its number.
fn next_check(command: &Running) -> u64 {
    let before = told(command).len();
    wait_until("another check", PATIENCE, || told(command).len() >= before + 2);
    told(command).last().copied().expect("two at least")
}

fn report(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}", outcome.stderr))
}

/// What the check of this number found.
fn found(report: &Value, number: u64) -> (u64, u64) {
    let rounds = report["check"]["rounds"].as_array().expect("several checks");
    let round = rounds.iter().find(|round| round["number"] == number);
    let round = round.unwrap_or_else(|| panic!("no check {number}: {rounds:?}"));
    let number = |of: &str| round["lost"][of].as_u64().expect("a number");
    (number("bytes"), number("blocks"))
}

/// Bytes by check of the leak of this function.
fn course(report: &Value, function: &str) -> Vec<u64> {
    let leaks = report["findings"]["leaks"].as_array().expect("a list");
    let is_its = |leak: &&Value| leak["frames"][1]["function"] == function;
    let leak = leaks.iter().find(is_its).unwrap_or_else(|| panic!("no {function}: {leaks:?}"));
    let course = leak["course"].as_array().expect("several checks");
    course.iter().filter_map(|amount| amount["bytes"].as_u64()).collect()
}

#[test]
fn each_check_of_a_living_process_finds_the_truth_of_its_moment() {
    let Some(program) = Source::new("leaking_steps.c").build() else { return };
    for (method, megabytes) in [("copy", "1"), ("fork", "50"), ("stop", "1"), ("early", "50")] {
        let mut program = Stepping::start(&program, &[megabytes]);
        let pid = program.pid().to_string();
        let args = ["check", "-p", &pid, "--json", "--every", "100ms", "--snapshot", method];
        let command = Heapattach::new(args).arg(ANY_PAUSE).start();
        let mut checks = vec![(next_check(&command), 0)];
        for step in 1..=STEPS {
            program.step();
            checks.push((next_check(&command), step));
        }
        command.signal(Signal::SIGINT);
        let outcome = command.wait();
        let report = report(&outcome);
        for (number, steps) in checks {
            assert_eq!(found(&report, number), truth(steps), "{method}, check {number}");
        }
        assert_eq!(outcome.status.code(), Some(23), "{}", outcome.stderr);
        assert_eq!(report["target"], "restored", "{method}");
        let first = course(&report, "first_leak");
        assert_eq!(first.last(), Some(&5000));
        let late = course(&report, "late_leak");
        assert!(late.is_sorted() && late.first() == Some(&0), "{late:?}");
        assert_eq!(late.last(), Some(&3000), "{late:?}");
        assert_eq!(program.end(), Some(0), "{method}");
    }
}

#[test]
fn a_program_is_checked_on_its_way_and_at_its_end() {
    let Some(program) = Source::new("leaking_steps.c").build() else { return };
    // The check reads its result from a file: standard output is the program's.
    let file = std::env::temp_dir().join(format!("heapattach-rounds-{}", std::process::id()));
    let mut command = Command::new(heapattach_tests::command::binary());
    command.args(["check", "--every", "100ms", "--json", ANY_PAUSE, "--report"]).arg(&file);
    let talk = file.with_extension("talk");
    command.stderr(std::fs::File::create(&talk).expect("a file of ours"));
    command.arg("--").arg(program);
    let mut program = Stepping::of(&mut command);
    let checks = || std::fs::read_to_string(&talk).map_or(0, |talk| numbers(&talk).len());
    for _ in 0..STEPS {
        let before = checks();
        wait_until("another check", PATIENCE, || checks() > before);
        program.step();
    }
    assert_eq!(program.end(), Some(23));
    let text = std::fs::read_to_string(&file).expect("a result");
    let _ = (std::fs::remove_file(&file), std::fs::remove_file(&talk));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let rounds = report["check"]["rounds"].as_array().expect("several checks");
    assert!(rounds.len() as u64 > STEPS, "{rounds:?}");
    let last = rounds.last().and_then(|round| round["number"].as_u64()).expect("a number");
    assert_eq!(found(&report, last), truth(STEPS));
    assert_eq!(report["check"]["at"], "exit");
    // Whenever they were made, they found the truth after some step.
    let truths: Vec<_> = (0..=STEPS).map(truth).collect();
    let all: Vec<_> = (1..=last).map(|number| found(&report, number)).collect();
    assert!(all.is_sorted() && all.iter().all(|one| is_between(one, &truths)), "{all:?}");
}

/// In the middle of a step a part of what it leaks is leaked.
fn is_between(one: &(u64, u64), truths: &[(u64, u64)]) -> bool {
    one >= truths.first().expect("no step") && one <= truths.last().expect("all steps")
}

#[test]
fn what_the_last_check_found_counts_when_the_process_is_gone() {
    let Some(program) = Source::new("leaking_steps.c").build() else { return };
    for (steps, code) in [(2, 23), (0, 5)] {
        let mut program = Stepping::start(&program, &[]);
        let pid = program.pid();
        let args = ["check", "-p", &pid.to_string(), "--json", "--every", "100ms", ANY_PAUSE];
        let command = Heapattach::new(args).start();
        next_check(&command);
        (0..steps).for_each(|_| program.step());
        next_check(&command);
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a child of ours");
        let outcome = command.wait();
        let report = report(&outcome);
        assert_eq!(outcome.status.code(), Some(code), "{}", outcome.stderr);
        assert_eq!(report["check"]["at"], "round");
        let sum = &report["check"]["sums"]["direct"];
        assert_eq!(sum["bytes"].as_u64(), Some(truth(steps).0), "{sum}");
    }
}

#[test]
fn a_program_that_becomes_another_while_it_is_looked_through_is_checked_on() {
    let Some(leaks) = Leaks::build() else { return };
    for method in ["copy", "fork"] {
        let options = ["--every", "100ms", "--snapshot", method, ANY_PAUSE];
        let script = "for i in 1 2 3; do sleep 0.15; done; exec \"$0\" \"$@\"";
        let result = leaks.check_by_with("simple", "return", ("sh", &["-c", script]), &options);
        assert_eq!(result.sum("direct"), (1337, 1), "{method}: {}", result.talk);
        assert_eq!(result.code, Some(23), "{method}: {}", result.talk);
        let rounds = &result.report["processes"][0]["check"]["rounds"];
        assert!(rounds.as_array().is_some_and(|rounds| rounds.len() >= 2), "{method}: {rounds}");
    }
}

#[test]
fn a_process_bears_no_trace_of_its_checks() {
    for method in ["copy", "fork", "stop"] {
        let Some(launch) = Launch::new("steady.c") else { return };
        let mut fixture = launch.start();
        let before = Before::of(&mut fixture);
        let pid = fixture.pid().to_string();
        let args = ["check", "-p", &pid, "--every", "200ms", "--duration", "3s", "--json"];
        let outcome = Heapattach::new(args).arg("--snapshot").arg(method).arg(ANY_PAUSE).run();
        let report = report(&outcome);
        // A busy machine has time for few; the last one is always made.
        assert!(report["check"]["look"].is_object(), "{method}: {report}");
        before.assert_equal(&mut fixture, &format!("after checks by {method}"));
        fixture.finish();
    }
}

#[test]
fn a_server_under_load_is_checked_every_second_and_answers() {
    let server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no redis here", cure),
        Err(StartError::Failed(why)) => panic!("redis does not start: {why}"),
    };
    let load = redis::load(&server);
    wait_until("the server to warm up", PATIENCE, || load.answered() >= 3000);
    let pid = Server::pid(&server).to_string();
    let args = ["check", "-p", &pid, "--every", "1s", "--duration", "5s", "--json", ANY_PAUSE];
    let outcome = Heapattach::new(args).run().expect(0);
    let report = report(&outcome);
    // A busy machine has time for few besides the last one, which is always made.
    assert!(report["check"]["look"].is_object(), "{report}");
    let rounds = report["check"]["rounds"].as_array().map_or(&[][..], Vec::as_slice);
    let has_result = rounds.iter().filter(|round| round["error"].is_null());
    for round in has_result {
        assert_eq!(round["lost"]["blocks"], 0, "{round}");
    }
    let before = load.answered();
    wait_until("it to answer on", PATIENCE, || load.answered() >= before + 100);
    load.finish().unwrap_or_else(|wrong| panic!("redis answered wrongly: {wrong}"));
}

#[test]
fn checks_that_are_too_near_to_one_another_are_refused() {
    let outcome = Heapattach::new(["check", "--every", "10ms", "--", "true"]).run().expect(2);
    assert!(outcome.stderr.contains("at least 100ms apart"), "{}", outcome.stderr);
}
