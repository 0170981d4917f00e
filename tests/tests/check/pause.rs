//! `check --max-pause`: what would take longer is not begun, what takes longer is given up, and what was
//! too long nevertheless is told. No clock decides here: a test says itself when the time is over.

use heapattach_tests::{
    check,
    command::{Heapattach, Outcome},
    compile::{Source, folder},
    fixture::{Fixture, Launch},
    hold::Hold,
    trace::Before,
};
use serde_json::Value;

const TARGET: &str = "steady.c";
/// The exit status, and what is said of the target: of what was given up, and of what was not begun.
const FAILED: (i32, &str) = (1, "restored");
const REFUSED: (i32, &str) = (3, "untouched");

fn check_of(fixture: &Fixture, options: &[&str]) -> Heapattach {
    let pid = fixture.pid().to_string();
    let command = Heapattach::new(["check", "-p", &pid, "--duration", "10ms", "--json"]);
    options.iter().fold(command, |command, option| command.arg(*option))
}

/// A check that came to nothing: it says why, claims nothing, and what the target is.
fn assert_refused(outcome: &Outcome, (code, target): (i32, &str), parts: &[&str]) {
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert!(report["check"].is_null(), "{report}");
    assert_eq!(report["target"], target, "{report}");
    let error = report["error"].as_str().unwrap_or_default();
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(outcome.code(), Some(code), "{}", outcome.stderr);
}

#[test]
fn a_copy_is_given_up_when_its_time_is_over_and_the_target_goes_on_as_it_was() {
    let Some(mut fixture) = Launch::new(TARGET).map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let options = ["--snapshot", "copy", "--max-pause=60s"];
    let outcome = check_of(&fixture, &options).env("HEAPATTACH_SPENT", "copy").run();
    assert_refused(
        &outcome,
        FAILED,
        &["longer than the process may be stopped: given up", "later"],
    );
    before.assert_equal(&mut fixture, "after a copy that was given up");
    fixture.finish();
}

#[test]
fn a_clone_is_given_up_when_its_time_is_over_and_nothing_of_it_is_left() {
    let Some(mut fixture) = Launch::new(TARGET).map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let options = ["--snapshot", "fork", "--max-pause=60s"];
    let spent = check_of(&fixture, &options).env("HEAPATTACH_SPENT", "share");
    let outcome = spent.fault("trace").run();
    assert!(outcome.stderr.contains("is clone"), "it was begun: {}", outcome.stderr);
    assert!(outcome.stderr.contains("is wait4"), "and taken in: {}", outcome.stderr);
    assert_refused(&outcome, FAILED, &["given up"]);
    before.assert_equal(&mut fixture, "after a clone that was given up");
    fixture.finish();
}

#[test]
fn a_copy_that_was_given_up_is_followed_by_a_clone_where_the_user_left_the_choice() {
    let header = folder().join("../cli/include");
    let source = Source::new("busy_checks.c").flag(&format!("-I{}", header.display()));
    let Some(program) = source.build() else { return };
    let result = check::run(
        &program,
        &["2", "3"],
        &[("MALLOC_ARENA_MAX", "256"), ("HEAPATTACH_SPENT", "copy")],
        &["--max-pause=60s"],
    );
    let rounds = result.check()["rounds"].as_array().cloned().unwrap_or_default();
    let asked: Vec<&Value> = rounds.iter().filter(|round| round["name"] == "busy").collect();
    assert_eq!(asked.len(), 3, "{rounds:?}");
    for (number, round) in (1_u64..).zip(asked) {
        assert_eq!(round["method"], "fork", "{round}");
        assert!(round["error"].is_null() && round["doubts"].is_null(), "{round}");
        assert_eq!(round["lost"]["bytes"], 100 * number, "{round}");
    }
    assert_eq!(result.code, Some(23), "{}", result.talk);
}

#[test]
fn a_clone_that_would_take_longer_is_not_begun() {
    let Some(mut fixture) = Launch::new(TARGET).map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    // No clone is expected to take less than ten milliseconds.
    let options = ["--snapshot", "fork", "--max-pause=9ms"];
    let outcome = check_of(&fixture, &options).fault("trace").run();
    assert!(!outcome.stderr.contains("is clone"), "{}", outcome.stderr);
    assert_refused(
        &outcome,
        REFUSED,
        &["would stop the process for about 1", "--max-pause", "9.00 ms"],
    );
    before.assert_equal(&mut fixture, "after a clone that was not begun");
    fixture.finish();
}

#[test]
fn by_how_much_a_stop_was_too_long_is_told() {
    const LIMIT: &str = "--max-pause=4s";
    let Some(mut fixture) = Launch::new(TARGET).map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    // Held when everything is copied, and let go when the time is over for certain.
    let hold = Hold::at(&["copied"]);
    let mut command = hold.start(check_of(&fixture, &["--snapshot", "copy", LIMIT]));
    hold.wait(&mut command, "copied");
    std::thread::sleep(std::time::Duration::from_secs(4));
    hold.let_go("copied");
    let outcome = command.wait();
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let look = &report["check"]["look"];
    assert!(look["paused_us"].as_f64() > Some(4e6), "{look}");
    assert_eq!(look["limit_us"], 4e6, "{look}");
    before.assert_equal(&mut fixture, "after a stop that was too long");
    fixture.finish();
}

#[test]
fn what_a_ring_of_the_kernel_may_write_to_is_not_copied_early() {
    let Some(fixture) = Launch::new("cold.c").map(Launch::start) else { return };
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", fixture.pid())).expect("it lives");
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    // Some machines allow none.
    let has_ring = links.into_iter().any(|link| link.as_os_str() == "anon_inode:[io_uring]");
    let outcome = check_of(&fixture, &["--snapshot", "early", "--max-pause=60s"]).run();
    if has_ring {
        let parts = ["cannot be copied early: it has an io_uring", "--snapshot fork"];
        assert_refused(&outcome, REFUSED, &parts);
    } else {
        let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        assert_eq!(report["check"]["look"]["method"], "early", "{report}");
    }
    fixture.finish();
}
