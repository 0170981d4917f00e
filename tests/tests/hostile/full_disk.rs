//! The disk that the report shall go to is full: the target feels nothing, and we say what is wrong.

use std::time::Duration;

use heapattach_tests::{
    command::{Heapattach, Hooks},
    fixture::Launch,
    trace::Before,
};

/// Takes no byte, as a disk that is full.
const FULL: &str = "/dev/full";
const FAILED: i32 = 1;

#[test]
fn a_report_of_a_session_that_cannot_be_written_is_a_failure() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    fixture.advance(100);
    let before = Before::of(&mut fixture);
    let attach = Heapattach::attach(fixture.pid(), Duration::from_millis(100), Hooks::Auto);
    let outcome = attach.arg("--all").stdout(FULL).run().expect(FAILED);
    let said = "the report cannot be written to standard output: No space left on device";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    before.assert_equal(&mut fixture, "after a report that nobody could read");
    fixture.finish();
}

#[test]
fn the_program_that_is_run_ends_as_it_ends() {
    let run = Heapattach::new(["run", "--no-record", "--report", FULL, "--", "sh", "-c", "exit 9"]);
    let outcome = run.run().expect(9);
    let said = "/dev/full cannot be written: No space left on device";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}
