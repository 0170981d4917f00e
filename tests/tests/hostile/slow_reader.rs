//! The reader of the records is slow, or is stopped: the target goes on, and the report says what is
//! missing.

use std::time::Duration;

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
    trace::Before,
};
use nix::sys::signal::{Signal, kill};

fn hammer() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

fn recording(fixture: &Fixture, ring: &str) -> Heapattach {
    Attached::command(fixture.pid(), Hooks::Auto).arg("--all").arg(format!("--ring={ring}"))
}

#[test]
fn a_reader_that_stands_still_costs_records_and_nothing_else() {
    let Some(mut fixture) = hammer() else { return };
    fixture.advance(100);
    let before = Before::of(&mut fixture);
    let attached = Attached::start(recording(&fixture, "4KiB"), &mut fixture);
    let tracer = attached.tracer();
    kill(tracer, Signal::SIGSTOP).expect("a child of our child");
    // Many rings full; the target must not wait for the reader.
    fixture.advance(20_000);
    kill(tracer, Signal::SIGCONT).expect("a child of our child");
    let report = attached.end();
    let lost = &report.heap.lost;
    assert!(lost["blocks"] > 0 && lost["torn"] == 0, "{lost:?}");
    before.assert_equal(&mut fixture, "after a reader that stood still");
    fixture.finish();
}

#[test]
fn a_full_ring_can_make_the_session_sample_less() {
    let Some(mut fixture) = hammer() else { return };
    let command = recording(&fixture, "4KiB").arg("--on-full=slow");
    let attached = Attached::start(command, &mut fixture);
    let tracer = attached.tracer();
    for _ in 0..3 {
        kill(tracer, Signal::SIGSTOP).expect("a child of our child");
        fixture.advance(5_000);
        kill(tracer, Signal::SIGCONT).expect("a child of our child");
        std::thread::sleep(Duration::from_millis(700));
    }
    let report = attached.end();
    assert!(report.heap.every > 1, "{:?}", report.heap.lost);
    fixture.finish();
}

#[test]
fn a_thread_that_waits_for_room_does_not_wait_for_ever() {
    let Some(mut fixture) = hammer() else { return };
    let command = recording(&fixture, "4KiB").arg("--on-full=wait");
    let attached = Attached::start(command, &mut fixture);
    let tracer = attached.tracer();
    kill(tracer, Signal::SIGSTOP).expect("a child of our child");
    fixture.advance(1);
    std::thread::sleep(Duration::from_millis(300));
    kill(tracer, Signal::SIGCONT).expect("a child of our child");
    fixture.advance(1000);
    let report = attached.end();
    let lost = &report.heap.lost;
    // What was given up is counted, and nothing was written over.
    assert!(lost["torn"] == 0, "{lost:?}");
    fixture.finish();
}

#[test]
fn mappings_wait_for_a_reader_that_stands_still_but_not_for_ever() {
    let Some(launch) = Launch::new("map_pairs.c") else { return };
    let mut fixture = launch.start();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--ring=4KiB");
    let attached = Attached::start(command, &mut fixture);
    let tracer = attached.tracer();
    kill(tracer, Signal::SIGSTOP).expect("a child of our child");
    // Many rings full: it waits once for all of them.
    fixture.advance(20_000);
    kill(tracer, Signal::SIGCONT).expect("a child of our child");
    fixture.advance(1000);
    let report = attached.end();
    let lost = &report.heap.lost;
    assert!(lost["blocks"] > 0 && lost["torn"] == 0, "{lost:?}");
    fixture.finish();
}

#[test]
fn what_is_not_all_recorded_is_not_called_exact() {
    let Some(mut fixture) = hammer() else { return };
    let command = Heapattach::new(["-p", &fixture.pid().to_string(), "--all", "--ring=4KiB"]);
    let attached = Attached::start(command.arg("--no-record"), &mut fixture);
    let tracer = attached.tracer();
    kill(tracer, Signal::SIGSTOP).expect("a child of our child");
    fixture.advance(20_000);
    kill(tracer, Signal::SIGCONT).expect("a child of our child");
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let outcome = running.wait();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("records of freed blocks were dropped"), "{said}");
    assert!(
        said.contains("numbers are not exact") && !said.contains("numbers are exact"),
        "{said}"
    );
    fixture.finish();
}
