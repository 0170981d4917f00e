//! The command and the process that does its work are killed at every point.

use std::{collections::HashMap, thread, time::Duration};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    page::Word,
    sample::{is_soak, points},
    seed::{Random, seed},
    survey::{Struck, Survey},
    trace::Before,
};
use nix::sys::signal::Signal;

const TARGET: &str = "steady.c";
const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;

fn target() -> Option<Fixture> {
    Some(Launch::new(TARGET)?.start())
}

/// The calls of an undisturbed attach and detach, by what they are. The target is at rest, so that
/// no stop is tried twice and each later run makes the same calls.
fn calls(fixture: &mut Fixture) -> Vec<String> {
    fixture.pause();
    let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
    let outcome = attach.fault("trace").run().expect(DONE);
    fixture.resume();
    let calls = outcome.stderr.lines().filter_map(|line| {
        let (_, call) = line.strip_prefix("heapattach: faults: call ")?.split_once(" is ")?;
        Some(call.to_owned())
    });
    let calls: Vec<_> = calls.collect();
    assert!(!calls.is_empty(), "no calls in {:?}", outcome.stderr);
    calls
}

/// Waits for the undo that somebody else does, and for his end.
fn assert_undone(fixture: &mut Fixture, before: &Before, when: &str) {
    let clean = poll(PATIENCE, || before.trace(fixture).is_empty().then_some(()));
    if clean.is_none() {
        before.assert_equal(fixture, &format!("{PATIENCE:?} {when}"));
    }
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_at_any_call() {
    let Some(mut fixture) = target() else { return };
    let (seed, before) = (seed(), Before::of(&mut fixture));
    let calls = calls(&mut fixture).len() as u64;
    let (mut tried, mut killed) = (0, 0);
    for n in points(calls, 60, &mut Random::new(seed)) {
        let fault = format!("killfront:{n}");
        let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
        let outcome = attach.fault(&fault).run();
        fixture.advance(1);
        assert_undone(&mut fixture, &before, &format!("after {fault}, seed {seed}"));
        // A fault near the end may hit a command that has just ended by itself.
        killed += u32::from(outcome.signal() == Some(Signal::SIGKILL as i32));
        tried += 1;
    }
    println!("command killed at {killed} of {calls} calls, undone each time, seed {seed}");
    assert!(killed * 2 >= tried, "killed {killed} times of {tried} only");
    fixture.finish();
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_at_any_time() {
    let Some(mut fixture) = target() else { return };
    let (seed, before) = (seed(), Before::of(&mut fixture));
    let mut random = Random::new(seed);
    let times = if is_soak() { 300 } else { 30 };
    for turn in 0..times {
        // The first ones hit the attach, later ones the session and the detach.
        let delay = Duration::from_micros(random.between(0, 150_000));
        let window = Duration::from_millis(random.between(1, 100));
        let command = Heapattach::attach(fixture.pid(), window, Hooks::Auto).start();
        thread::sleep(delay);
        command.signal(Signal::SIGKILL);
        command.wait();
        let when = format!("after a kill {delay:?} from the start ({turn}), seed {seed}");
        assert_undone(&mut fixture, &before, &when);
        fixture.advance(1);
    }
    println!("command killed at {times} random times, undone each time, seed {seed}");
    fixture.finish();
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_in_a_session() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    for hooks in [Hooks::Auto, Hooks::Slots, Hooks::Entry] {
        let command = Attached::to(&mut fixture, hooks).into_command();
        command.signal(Signal::SIGKILL);
        command.wait();
        assert_undone(&mut fixture, &before, "after a kill in the session");
        fixture.advance(1);
    }
    fixture.finish();
}

#[test]
fn hang_ups_and_terminations_detach_cleanly() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let command = Attached::to(&mut fixture, Hooks::Auto).into_command();
        command.signal(signal);
        let outcome = command.wait();
        assert!(outcome.code().is_some(), "{signal} killed it: {}", outcome.stderr);
        assert_undone(&mut fixture, &before, &format!("after {signal}"));
    }
    fixture.finish();
}

#[test]
fn the_target_survives_the_death_of_its_tracer_and_can_be_cleaned() {
    let Some(mut fixture) = target() else { return };
    let (seed, calls) = (seed(), calls(&mut fixture));
    fixture.finish();
    let (mut dead, mut struck) = (0, HashMap::new());
    let points = points(calls.len() as u64, 100, &mut Random::new(seed));
    let survey = Survey::of(TARGET, points, |fixture, _, n| {
        let fault = format!("kill:{n}");
        fixture.pause();
        let outcome = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).fault(&fault).run();
        struck.extend(Struck::read(&outcome.stderr).map(|place| (n, place)));
        fixture.page().set(Word::Pause, 0);
        if !lives_on(fixture) {
            dead += 1;
            *fixture = target().unwrap_or_else(|| panic!("compiled before"));
            panic!("the target died of {fault}");
        }
        Heapattach::detach(fixture.pid()).run().expect(DONE);
    });
    let Some(survey) = survey else { return };
    println!(
        "tracer killed at {} of {} calls: the target died {} times, seed {seed}",
        survey.tried(),
        calls.len(),
        dead
    );
    survey.assert_well_outside_windows("the tracer is killed", &calls, &struck);
}

#[test]
fn a_second_ctrl_c_hurries_and_still_detaches_cleanly() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    for pause in [0, 1, 5, 50].map(Duration::from_millis) {
        let command = Attached::to(&mut fixture, Hooks::Auto).into_command();
        command.signal(Signal::SIGINT);
        thread::sleep(pause);
        command.signal(Signal::SIGINT);
        let outcome = command.wait().expect(INTERRUPTED);
        assert_eq!(outcome.report().target, "restored", "{}", outcome.stderr);
        before.assert_equal(&mut fixture, "after two interrupts");
    }
    fixture.finish();
}

/// Whether the target goes on; it may take a moment to die.
fn lives_on(fixture: &mut Fixture) -> bool {
    let goal = fixture.progress() + 1000;
    let outcome = poll(PATIENCE, || match fixture.ended() {
        Some(_) => Some(false),
        None => (fixture.progress() >= goal).then_some(true),
    });
    outcome.unwrap_or_else(|| fixture.fail("hangs after its tracer was killed"))
}
