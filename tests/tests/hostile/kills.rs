//! The command and the process that does its work are killed at every point.

use std::{thread, time::Duration};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    compile::Source,
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    hazard::cycles,
    measure::{Busy, rank},
    page::Word,
    sample::{is_soak, points},
    seed::{Random, seed},
    survey::{Survey, name},
    trace::Before,
};
use nix::sys::signal::Signal;

const TARGET: &str = "steady.c";
const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;
/// A target whose memory was changed has come upon it after so many.
const STEPS: u64 = 300;
/// More than there are places for a frame behind the code of a small program.
const DEATHS: usize = 3;

fn target() -> Option<Fixture> {
    Some(Launch::new(TARGET)?.start())
}

/// The calls of an undisturbed attach and detach, by what they are. The target is at rest, so that
/// no stop is tried twice and each later run makes the same calls.
fn calls(fixture: &mut Fixture) -> Vec<String> {
    fixture.pause();
    let calls = calls_beside(fixture);
    fixture.resume();
    calls
}

/// The same of a target that goes on: with a try more or less, later runs make the same ones.
fn calls_beside(fixture: &Fixture) -> Vec<String> {
    let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
    let outcome = attach.fault("trace").run().expect(DONE);
    let calls = outcome.calls();
    assert!(!calls.is_empty(), "no calls in {:?}", outcome.stderr);
    calls
}

/// Waits until another process has undone the hooks, and for its end.
pub(crate) fn assert_undone(fixture: &mut Fixture, before: &Before, when: &str) {
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
    let mut killed = 0;
    for n in points(calls, 60, &mut Random::new(seed)) {
        let fault = format!("killfront:{n}");
        let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
        let outcome = attach.fault(&fault).run();
        fixture.advance(1);
        assert_undone(&mut fixture, &before, &format!("after {fault}, seed {seed}"));
        let is_killed = outcome.signal() == Some(Signal::SIGKILL as i32);
        // In the attach, which makes more than half of the calls, there is a command to kill; one near the end
        // may have ended by itself.
        assert!(is_killed || n > calls / 2, "not killed by {fault} of {calls}, seed {seed}");
        let code = outcome.code();
        assert!(is_killed || code == Some(DONE), "{fault}: {code:?}: {}", outcome.stderr);
        killed += u32::from(is_killed);
    }
    println!("command killed at {killed} of {calls} calls, undone each time, seed {seed}");
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
    let mut dead = 0;
    let mut random = Random::new(seed);
    let points = points(calls.len() as u64, 100, &mut random);
    let survey = Survey::of(TARGET, points, |fixture, _, n| {
        let fault = format!("kill:{n}");
        fixture.pause();
        let _ = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).fault(&fault).run();
        fixture.page().set(Word::Pause, 0);
        if !lives_on(fixture, STEPS) {
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
    survey.assert_all_well("the tracer is killed", |n| name(&calls, n));
}

/// Targets whose C library is within them, whose only thread stands on stacks from its heap, and with
/// very many stacks.
#[test]
fn targets_on_any_stack_survive_the_death_of_their_tracer() {
    let static_one = Source::new("steady.c").flag("-static");
    let coroutines = Source::new("coroutines.c");
    let threads = Source::new("many_threads.c");
    let seed = seed();
    let mut random = Random::new(seed);
    for (source, words) in [(static_one, &[][..]), (coroutines, &[]), (threads, &["40"])] {
        let start = || {
            let launch = Launch::of(&source)?;
            Some(words.iter().fold(launch, |launch, word| launch.arg(word)).start())
        };
        let Some(mut fixture) = start() else { return };
        let attach = |fixture: &Fixture, fault: &str| {
            Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).fault(fault).run()
        };
        let calls = attach(&fixture, "trace").expect(DONE).stderr.matches("faults: call").count();
        let mut tried = 0;
        for n in points(calls as u64, 25, &mut random) {
            attach(&fixture, &format!("kill:{n}"));
            let name = fixture.name().to_owned();
            assert!(lives_on(&mut fixture, STEPS), "{name} died of kill:{n}, seed {seed}");
            fixture.assert_well();
            Heapattach::detach(fixture.pid()).run().expect(DONE);
            tried += 1;
        }
        println!("{}: tracer killed at {tried} of {calls} calls, seed {seed}", fixture.name());
        fixture.finish();
    }
}

#[test]
fn an_ordinary_target_has_no_unsafe_window() {
    let Some(mut fixture) = target() else { return };
    for hooks in [Hooks::Auto, Hooks::Slots] {
        let report = Heapattach::attach(fixture.pid(), WINDOW, hooks).run().expect(DONE).report();
        assert_eq!((report.window_us, report.window_times), (0.0, 0), "{report:?}");
        fixture.advance(1);
    }
    fixture.finish();
}

/// The calls from `from` on, up to the one that gives the thread its own registers back.
fn borrowed(calls: &[String], from: usize) -> std::ops::RangeInclusive<u64> {
    let mask = |call: &String| call == "PTRACE_SETSIGMASK";
    let back = calls.iter().skip(from).enumerate().filter(|(_, call)| mask(call)).nth(1);
    let to = back.map_or(calls.len(), |(index, _)| from + index + 2);
    from as u64 + 1..=to as u64 + 1
}

/// A thread on a stack from the heap has its frame behind code, where a small program has two places:
/// what a death leaves there is nothing that the next may not use.
#[test]
fn frames_left_behind_code_are_used_again_and_given_back() {
    let Some(mut fixture) = Launch::new("coroutines.c").map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let calls = calls_beside(&fixture);
    let is_first = |call: &String| call == "mmap home";
    let first = calls.iter().position(is_first).expect("the first call in the target");
    let last = calls.iter().rposition(|call| call == "munmap").expect("the last one");
    for _ in 0..DEATHS {
        for n in (first as u64 + 2..first as u64 + 6).chain(borrowed(&calls, last)) {
            let fault = format!("kill:{n}");
            let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
            attach.fault(&fault).run();
            assert!(lives_on(&mut fixture, 10), "the target died of {fault}");
            fixture.assert_well();
        }
        Heapattach::detach(fixture.pid()).run().expect(DONE);
        before.assert_equal(&mut fixture, "after deaths in the first call and in the last");
    }
    fixture.finish();
}

/// Signals wait for as long as a thread is borrowed, and come when its mask is given back: it must have
/// a stack for them then, should its tracer die before it has its own registers again.
#[test]
fn a_target_in_the_midst_of_signals_survives_the_death_of_its_tracer() {
    let Some(mut fixture) = Launch::new("signal_storm.c").map(Launch::start) else { return };
    let calls = calls_beside(&fixture);
    let masks = (1..).zip(&calls).filter(|(_, call)| *call == "PTRACE_SETSIGMASK");
    let masks: Vec<u64> = masks.map(|(number, _)| number).collect();
    assert!(masks.len() >= 4, "two threads borrowed and given back: {calls:?}");
    for n in masks.into_iter().flat_map(|mask| mask - 1..=mask + 2) {
        let fault = format!("kill:{n}");
        Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).fault(&fault).run();
        assert!(lives_on(&mut fixture, 10), "the target died of {}", name(&calls, n));
        fixture.assert_well();
        Heapattach::detach(fixture.pid()).run().expect(DONE);
    }
    fixture.finish();
}

/// A program without a C library, and without room behind its code.
fn full() -> Option<Fixture> {
    Launch::of(&Source::new("bare.c").flag("-DFULL")).map(Launch::start)
}

/// What brings its threads back lies behind its code, since it has no such code itself.
#[test]
fn a_target_without_a_c_library_survives_the_death_of_its_tracer() {
    let Some(mut fixture) = Launch::new("bare.c").map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let report = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).run().expect(DONE).report();
    assert_eq!((report.window_us, report.window_times), (0.0, 0), "{report:?}");
    let calls = calls_beside(&fixture);
    let seed = seed();
    for n in points(calls.len() as u64, 100, &mut Random::new(seed)) {
        let fault = format!("kill:{n}");
        Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).fault(&fault).run();
        let name = name(&calls, n);
        assert!(lives_on(&mut fixture, 10), "the target died of {fault}, {name}, seed {seed}");
        fixture.assert_well();
        Heapattach::detach(fixture.pid()).run().expect(DONE);
        before.assert_equal(&mut fixture, &format!("after {fault}, {name}, seed {seed}"));
    }
    fixture.finish();
}

/// What cannot be covered is named, with the time that it took.
#[test]
fn a_target_without_a_c_library_and_without_room_has_an_unsafe_window_that_is_named() {
    let Some(mut fixture) = full() else { return };
    let why = "its code has no place to make a system call at";
    let before = Before::of(&mut fixture);
    let report = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).run().expect(DONE).report();
    assert_eq!((report.window_times, report.window_why.as_deref()), (2, Some(why)), "{report:?}");
    assert!(report.window_us > 0.0, "{report:?}");
    let pid = fixture.pid().to_string();
    let text =
        Heapattach::new(["-p", &pid, "--duration", "10ms", "--no-record"]).run().expect(DONE);
    let line = text.stdout.lines().find(|line| line.contains("unsafe window: "));
    let line = line.unwrap_or_else(|| panic!("no window in {}", text.stdout));
    let time = line.split("unsafe window: ").nth(1).and_then(|rest| rest.split(' ').next());
    let time = time.and_then(|time| time.parse::<u64>().ok());
    assert!(time.is_some_and(|time| time > 0), "{line}");
    assert!(line.contains(" us in 2 calls ") && line.ends_with(why), "{line}");
    before.assert_equal(&mut fixture, "after two sessions");
    fixture.finish();
}

/// What no shelter covers (no C library and no room for one), beside 30 processes that want a processor:
/// `HEAPATTACH_CYCLES=1000 cargo test --release --workspace --test hostile -- --ignored --nocapture
/// unsafe_windows`, on a machine that does nothing else.
#[test]
#[ignore = "a measurement: it asserts nothing that a busy machine would not change"]
fn unsafe_windows_where_nothing_shelters() {
    let Some(mut fixture) = full() else { return };
    let busy = Busy::processes(30);
    let attaches = cycles();
    let windows: Vec<f64> = (0..attaches)
        .map(|_| {
            let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record");
            let report = attach.run().expect(DONE).report();
            assert_eq!(report.window_times, 2, "{report:?}");
            report.window_us
        })
        .collect();
    drop(busy);
    fixture.advance(1);
    let [half, most, nearly_all] = [500, 990, 999].map(|share| rank(&windows, share));
    println!(
        "{attaches} attaches beside 30 busy processes: unsafe windows of {half:.1} us at p50, \
         {most:.1} at p99, {nearly_all:.1} at p99.9 (both calls of an attach together; goal: 50)"
    );
    fixture.finish();
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

/// Whether the target goes on for so many steps; it may take a moment to die.
fn lives_on(fixture: &mut Fixture, steps: u64) -> bool {
    let goal = fixture.progress() + steps;
    let outcome = poll(PATIENCE, || match fixture.ended() {
        Some(_) => Some(false),
        None => (fixture.progress() >= goal).then_some(true),
    });
    outcome.unwrap_or_else(|| fixture.fail("hangs after its tracer was killed"))
}
