//! A process that was attached to is word for word what it was.

use std::time::Duration;

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::Launch,
    trace::Before,
};

const WINDOW: Duration = Duration::from_millis(5);
const CALL_ALL: std::ops::RangeInclusive<u64> = 1..=21;
/// Steps of `kept_pointers.c`.
const KEEP: u64 = 1;
const USE: u64 = 2;
const COUNT_FOREIGN: u64 = 3;

fn leaves_no_trace(hooks: Hooks, cycles: u32) {
    let Some(launch) = Launch::new("explicit_calls.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture);
    for cycle in 0..cycles {
        Heapattach::attach(fixture.pid(), WINDOW, hooks).run().expect(0);
        before.assert_equal(&mut fixture, &format!("after {} cycles", cycle + 1));
        fixture.step(1 + u64::from(cycle) % CALL_ALL.end(), 10);
    }
    for step in CALL_ALL {
        fixture.step(step, 100);
    }
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn one_cycle_leaves_no_trace() {
    for hooks in [Hooks::Auto, Hooks::Slots, Hooks::Entry] {
        leaves_no_trace(hooks, 1);
    }
}

#[test]
fn a_hundred_cycles_leave_no_trace_with_automatic_hooks() {
    leaves_no_trace(Hooks::Auto, 100);
}

#[test]
fn a_hundred_cycles_leave_no_trace_with_slots() {
    leaves_no_trace(Hooks::Slots, 100);
}

#[test]
fn the_stub_page_is_one_page_after_many_cycles() {
    let Some(launch) = Launch::new("kept_pointers.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture);
    for _ in 0..5 {
        for hooks in [Hooks::Slots, Hooks::Auto, Hooks::Entry] {
            Heapattach::attach(fixture.pid(), WINDOW, hooks).run().expect(0);
        }
        before.assert_equal(&mut fixture, "with changing hooks");
    }
    fixture.finish();
}

fn kept_pointers_work_after_detach(hooks: Hooks) {
    let Some(launch) = Launch::new("kept_pointers.c") else { return };
    let mut fixture = launch.start();
    // The heap grows once, now.
    fixture.step(USE, 300);
    let before = Before::of(&mut fixture);
    for session in 0..3 {
        let attached = Attached::to(&mut fixture, hooks);
        fixture.step(KEEP, 0);
        let foreign = fixture.step(COUNT_FOREIGN, 0);
        // Else the application kept nothing of ours and the test is of nothing.
        assert!(hooks != Hooks::Slots || foreign > 0, "no hooked address could be kept");
        fixture.step(USE, 300);
        let report = attached.end();
        assert!(report.calls() >= 300, "only {} calls counted", report.calls());
        before.assert_equal(&mut fixture, &format!("after session {session}"));
        fixture.step(USE, 300);
        fixture.assert_well();
    }
    fixture.finish();
}

#[test]
fn kept_pointers_work_after_detach_from_slots() {
    kept_pointers_work_after_detach(Hooks::Slots);
}

#[test]
fn kept_pointers_work_after_detach_from_automatic_hooks() {
    kept_pointers_work_after_detach(Hooks::Auto);
}
