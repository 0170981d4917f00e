//! Checks beside threads that allocate all the time: each that is asked for is made, and finds the truth
//! of its moment, however many threads stand in the middle of an allocation.

use std::{path::PathBuf, process::Command};

use heapattach_tests::{
    check::{self, Stepping},
    command::Heapattach,
    compile::{Source, folder},
    deadline::{PATIENCE, wait_until},
};
use nix::sys::signal::Signal;
use serde_json::Value;

const CHECKS: u64 = 5;
const LOST: u64 = 100;
/// Beyond 31 threads rings are shared.
const THREADS: [&str; 4] = ["2", "4", "16", "64"];
/// As many arenas as threads: a thread whose dead variable still leads to what another one has leaked since
/// would hide that, as any such word does.
const APART: (&str, &str) = ("MALLOC_ARENA_MAX", "256");
const TOGETHER: (&str, &str) = ("MALLOC_ARENA_MAX", "1");
/// The same for the pauses.
const ANY_PAUSE: &str = "--max-pause=60s";

fn program() -> Option<PathBuf> {
    let header = folder().join("../cli/include");
    let source = Source::new("busy_checks.c").flag(&format!("-I{}", header.display()));
    // The machine may be slow; that is not what is tested.
    source.flag("-DHEAPATTACH_PATIENCE=600000").build()
}

fn rounds(report: &Value) -> Vec<Value> {
    report["check"]["rounds"].as_array().cloned().unwrap_or_default()
}

/// Each check that the program asked for has a result, and it is what was leaked by then.
fn assert_asked(report: &Value, how: &str) {
    let all = rounds(report);
    let asked: Vec<&Value> = all.iter().filter(|round| round["name"] == "busy").collect();
    assert_eq!(asked.len() as u64, CHECKS, "{how}: {all:?}");
    for (number, round) in (1..).zip(asked) {
        assert!(round["error"].is_null() && round["doubts"].is_null(), "{how}: {round}");
        assert_eq!(round["lost"]["bytes"], number * LOST, "{how}: {round}");
        assert_eq!(round["lost"]["blocks"], number, "{how}: {round}");
    }
}

#[test]
fn every_check_that_is_asked_for_is_made_beside_any_number_of_threads() {
    let Some(program) = program() else { return };
    for threads in THREADS {
        for method in ["copy", "fork", "stop"] {
            let how = format!("{threads} threads, {method}");
            let options = [ANY_PAUSE, "--snapshot", method];
            let words = [threads, &CHECKS.to_string()];
            let result = check::run(&program, &words, &[APART], &options);
            assert_asked(&result.report, &how);
            let doubts = &result.check()["doubts"];
            assert_eq!(result.code, Some(23), "{how}: {doubts}: {}", result.talk);
            assert_eq!(result.lost(), [(CHECKS * LOST, CHECKS), (0, 0), (0, 0)], "{how}");
        }
    }
}

/// Several threads share each ring then, and mostly none of them gets a processor.
#[test]
fn very_many_threads_that_share_rings_hide_and_invent_nothing() {
    let Some(program) = program() else { return };
    let words = ["200", &CHECKS.to_string()];
    let result = check::run(&program, &words, &[APART], &[ANY_PAUSE, "--snapshot", "copy"]);
    assert_asked(&result.report, "200 threads");
    assert_eq!(result.lost(), [(CHECKS * LOST, CHECKS), (0, 0), (0, 0)], "{}", result.talk);
    let doubts = &result.check()["doubts"];
    assert_eq!(result.code, Some(23), "{doubts}: {}", result.talk);
}

#[test]
fn threads_that_wait_for_one_another_in_the_allocator_invent_no_leak() {
    let Some(program) = program() else { return };
    for threads in THREADS {
        let words = [threads, &CHECKS.to_string()];
        let result = check::run(&program, &words, &[TOGETHER], &[ANY_PAUSE]);
        let all = rounds(&result.report);
        let asked: Vec<&Value> = all.iter().filter(|round| round["name"] == "busy").collect();
        assert_eq!(asked.len() as u64, CHECKS, "{threads}: {all:?}");
        for (number, round) in (1..).zip(asked) {
            assert!(round["error"].is_null() && round["doubts"].is_null(), "{threads}: {round}");
            let may_be =
                ["lost", "possible"].map(|kind| round[kind]["bytes"].as_u64().unwrap_or(0));
            assert!(may_be[0] + may_be[1] <= number * LOST, "{threads}: {round}");
        }
        assert_eq!(result.code, Some(23), "{threads}: {}", result.talk);
    }
}

#[test]
fn rounds_and_the_last_check_of_a_living_process_are_made_while_its_threads_allocate() {
    let Some(program) = program() else { return };
    for threads in THREADS {
        let mut command = Command::new(&program);
        command.args([threads, &CHECKS.to_string(), "wait"]).env(APART.0, APART.1);
        let mut program = Stepping::of(&mut command);
        let pid = program.pid().to_string();
        let args = ["check", "-p", &pid, "--json", "--every", "100ms", ANY_PAUSE];
        let command = Heapattach::new(args).start();
        wait_until("the attach", PATIENCE, || command.talk().contains("attached to"));
        program.tell_and_hear("done\n");
        let made =
            || command.talk().lines().filter(|l| l.starts_with("heapattach: check ")).count();
        let before = made();
        wait_until("three more checks", PATIENCE, || made() >= before + 3);
        command.signal(Signal::SIGINT);
        let outcome = command.wait();
        let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        assert_asked(&report, threads);
        for round in rounds(&report) {
            assert!(round["error"].is_null() && round["doubts"].is_null(), "{threads}: {round}");
            assert!(round["lost"]["bytes"].as_u64() <= Some(CHECKS * LOST), "{threads}: {round}");
        }
        let direct = &report["check"]["sums"]["direct"];
        assert_eq!(direct["bytes"], CHECKS * LOST, "{threads}: {report}");
        assert_eq!(outcome.status.code(), Some(23), "{threads}: {}", outcome.stderr);
        assert_eq!(report["target"], "restored", "{threads}");
        assert_eq!(program.end(), Some(0), "{threads}");
    }
}

/// Blocks that were freed after that would all be called leaked.
#[test]
fn nothing_is_concluded_once_the_hooks_have_switched_themselves_off() {
    let Some(program) = program() else { return };
    let env = [APART, ("HEAPATTACH_SPENT", "heart")];
    let result = check::run(&program, &["2", "2"], &env, &[ANY_PAUSE]);
    let doubts = result.check()["doubts"].to_string();
    assert!(doubts.contains("switched themselves off"), "{doubts}");
    assert_eq!(result.code, Some(6), "{}", result.talk);
}

#[test]
fn a_check_that_was_asked_for_and_not_made_does_not_pass_for_clean() {
    let Some(program) = program() else { return };
    // Nothing fits into such a pause, but the last check does, as the program does not wait for that one.
    let result = check::run(&program, &["2", "1"], &[], &["--max-pause=1ms", "--max-leak=1MiB"]);
    assert!(rounds(&result.report)[0]["error"].is_string(), "{}", result.report);
    assert_eq!(result.code, Some(6), "{}", result.talk);
    let unmade = result.check()["unmade"].to_string();
    assert!(unmade.contains("the check `busy` that the program requested"), "{unmade}");
}
