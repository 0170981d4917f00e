//! Ctrl-C before the target is stopped for the first time: the command ends at once, no matter what its
//! tracing process is doing, and the target is not touched.

use std::path::PathBuf;

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    hold::Hold,
    real::children,
    task::Task,
    trace::Before,
};
use nix::sys::signal::Signal;

const NOTHING: [PathBuf; 0] = [];

fn target() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

/// What looks at the target before it is stopped, and then stops it.
fn commands(pid: i32) -> Vec<Heapattach> {
    let pid = pid.to_string();
    vec![
        Heapattach::new(["-p", &pid, "--json"]),
        Heapattach::new(["-p", &pid, "--duration", "60s"]),
        Heapattach::new(["-p", &pid, "--hooks", "slots", "-o", "a.heapattach"]),
        Heapattach::new(["-p", &pid, "--follow-forks"]),
        Heapattach::new(["-p", &pid, "--loader", "dlopen"]),
        Heapattach::new(["check", "-p", &pid]),
    ]
}

#[test]
fn an_interrupt_before_the_first_stop_ends_the_command_at_once() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    for number in 0..commands(0).len() {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let hold = Hold::at(&["stop"]);
            let mut command = hold.start(commands(fixture.pid()).swap_remove(number));
            hold.wait(&mut command, "stop");
            command.signal(signal);
            let outcome = command.wait().expect(INTERRUPTED);
            assert!(hold.holds("stop"), "the tracing process has gone on");
            let told = &outcome.stderr;
            assert!(told.contains("(target: untouched)"), "command {number}: {told}");
            assert!(!Attached::is_told(told), "command {number}: {told}");
            assert_eq!(hold.left(), NOTHING, "command {number}: files are left");
            before.assert_equal(&mut fixture, &format!("after command {number}"));
        }
    }
    fixture.finish();
}

#[test]
fn every_moment_before_the_first_stop_is_early_enough() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    for place in ["begin", "survey", "stop"] {
        let hold = Hold::at(&[place]);
        let mut command = hold.start(Attached::command(fixture.pid(), Hooks::Auto));
        hold.wait(&mut command, place);
        command.signal(Signal::SIGINT);
        let report = command.wait().expect(INTERRUPTED).report();
        assert_eq!((&*report.outcome, &*report.target), ("interrupted", "untouched"), "{place}");
        assert!(report.stops.is_empty(), "stopped though interrupted at {place}");
        before.assert_equal(&mut fixture, &format!("after an interrupt at {place}"));
    }
    fixture.finish();
}

#[test]
fn an_interrupt_after_that_detaches() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    let hold = Hold::at(&["permitted"]);
    let mut command = hold.start(Attached::command(fixture.pid(), Hooks::Auto));
    hold.wait(&mut command, "permitted");
    command.signal(Signal::SIGINT);
    wait_until("the command to say so", PATIENCE, || command.talk().contains("detaching"));
    hold.let_go("permitted");
    let report = command.wait().expect(INTERRUPTED).report();
    assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"));
    before.assert_equal(&mut fixture, "after an interrupt in the first stop");
    fixture.finish();
}

#[test]
fn the_target_of_a_command_that_is_killed_before_is_not_touched() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    let hold = Hold::at(&["stop"]);
    let attach = Heapattach::new(["-p", &fixture.pid().to_string()]).fault("count");
    let mut command = hold.start(attach);
    hold.wait(&mut command, "stop");
    let tracer = *children(command.pid()).first().expect("the tracing process is its child");
    command.signal(Signal::SIGKILL);
    wait_until("the command to end", PATIENCE, || !command.is_running());
    hold.let_go("stop");
    wait_until("the tracing process to end", PATIENCE, || {
        matches!(Task::leader(tracer).state(), None | Some('Z'))
    });
    let told = command.talk();
    assert!(told.contains("faults: 0 calls"), "something was done to the target: {told}");
    assert_eq!(hold.left(), NOTHING, "files are left");
    before.assert_equal(&mut fixture, "after its command was killed");
    fixture.finish();
}
