//! What other processes do to a target while root's heapattach is just changing it, at every step: they
//! end it, have it become another program, or a new one comes to bear its number.

use std::{
    collections::BTreeMap, fs, os::unix::process::CommandExt, process::Command, time::Duration,
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, Outcome, Running},
    deadline::{PATIENCE, poll, wait_until},
    fixture::{Fixture, Launch},
    hold::Hold,
    page::Word,
    sample::points,
    seed::{Random, seed},
    skip::skip,
    trace::Before,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;
const TARGET_DIED: i32 = 5;
const NOT_RESTORED: i32 = 7;
/// Steps at which each of them is tried, unless it is a soak.
const TRIED: usize = 40;
const NOBODY: u32 = 65534;

const REPLACE: u64 = 1;
const REPLACED: u64 = 1;
const NOT_ALLOWED: u64 = 77;

fn target() -> Option<Fixture> {
    target_of("first")
}

/// One that can become another program, by its first or its last thread.
fn target_of(thread: &str) -> Option<Fixture> {
    if !nix::unistd::geteuid().is_root() {
        skip("only root can be attacked by another user", "run the tests as root");
        return None;
    }
    Launch::new("hostile_target.c")?.arg("meddled").arg(thread).start_if_allowed()
}

fn attach(fixture: &Fixture, fault: &str) -> Heapattach {
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record").fault(fault)
}

/// How many calls the engine makes for an attach and a detach.
fn calls(fixture: &Fixture) -> u64 {
    let outcome = attach(fixture, "count").run().expect(DONE);
    let said = outcome.stderr.lines().find_map(|line| {
        let counted = line.strip_prefix("heapattach: faults: ")?.strip_suffix(" calls")?;
        counted.parse().ok()
    });
    said.unwrap_or_else(|| panic!("no count: {}", outcome.stderr))
}

/// Has an attach stand still at a call, does something meanwhile, and lets it go on.
fn meanwhile(fixture: &Fixture, call: u64, act: impl FnOnce()) -> (bool, Outcome) {
    let hold = Hold::at(&["call"]);
    let mut command: Running = hold.start(attach(fixture, &format!("hold:{call}")));
    let held = poll(PATIENCE, || {
        let is_held = command.talk().contains("held at call");
        (is_held || !command.is_running()).then_some(is_held)
    });
    let is_held = held.expect("it neither ends nor comes there");
    if is_held {
        act();
    }
    hold.let_go("call");
    (is_held, command.wait())
}

/// A signal from a process of the target's own user.
fn send(signal: &str, pid: i32) {
    let mut command = Command::new("kill");
    let status = command.args([&format!("-{signal}"), &pid.to_string()]).uid(NOBODY).gid(NOBODY);
    // One that has ended meanwhile is not a failure of ours.
    let _ = status.stderr(std::process::Stdio::null()).status().expect("there is kill");
}

/// A slow machine has time for a few steps only, of which some may be behind the last one.
fn assert_mostly(held: u32, outcomes: &BTreeMap<Option<i32>, u32>) {
    let tried: u32 = outcomes.values().sum();
    assert!(tried > 0 && (tried < 8 || held > tried / 4), "held at {held} of {tried}");
}

fn assert_sound(outcome: &Outcome, when: &str) {
    let said = format!("{when}: {}\n{}\n{}", outcome.status, outcome.stdout, outcome.stderr);
    assert!(outcome.code().is_some_and(|code| code != 101), "{said}");
    assert!(!outcome.stderr.contains("panicked"), "{said}");
    assert!(outcome.report().left.is_empty(), "{said}");
}

fn status(pid: i32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn has_ours(pid: i32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.contains("/memfd:heapattach")
}

#[test]
fn a_target_that_is_ended_at_any_step_ends_and_nothing_else() {
    let Some(mut fixture) = target() else { return };
    let (seed, calls) = (seed(), calls(&fixture));
    let (mut held, mut outcomes) = (0, BTreeMap::<_, u32>::new());
    for call in points(calls, TRIED, &mut Random::new(seed)) {
        let pid = fixture.pid();
        let (is_held, outcome) = meanwhile(&fixture, call, || send("KILL", pid));
        assert_sound(&outcome, &format!("ended at call {call}, seed {seed}"));
        *outcomes.entry(outcome.code()).or_default() += 1;
        if is_held {
            held += 1;
            wait_until("its end", PATIENCE, || fixture.ended().is_some());
            let Some(next) = target() else { return };
            fixture = next;
        }
    }
    println!("ended at {held} of {calls} calls, exit codes {outcomes:?}, seed {seed}");
    assert_mostly(held, &outcomes);
    fixture.finish();
}

#[test]
fn a_target_that_becomes_another_program_at_any_step_is_that_program() {
    let Some(mut fixture) = target() else { return };
    let (seed, calls) = (seed(), calls(&fixture));
    let (mut held, mut outcomes) = (0, BTreeMap::<_, u32>::new());
    for call in points(calls, TRIED, &mut Random::new(seed)) {
        let (pid, begun) = (fixture.pid(), fixture.page().get(Word::Seen));
        let (is_held, outcome) = meanwhile(&fixture, call, || send("USR1", pid));
        let when = format!("begun anew at call {call}, seed {seed}");
        assert_sound(&outcome, &when);
        *outcomes.entry(outcome.code()).or_default() += 1;
        if outcome.code() == Some(7) {
            println!("{when}: {}", outcome.stderr);
        }
        if is_held {
            held += 1;
            fixture.wait_for("it to begin anew", |f| {
                f.page().get(Word::Seen) > begun && f.page().get(Word::Ready) != 0
            });
        }
        fixture.advance(1);
        fixture.assert_well();
        assert!(!has_ours(pid) && status(pid, "TracerPid") == "0", "{when}");
    }
    println!("begun anew at {held} of {calls} calls, exit codes {outcomes:?}, seed {seed}");
    assert_mostly(held, &outcomes);
    fixture.finish();
}

/// The numbers of all calls with this name that an attach and a detach make.
fn calls_named(fixture: &Fixture, name: &str) -> Vec<u64> {
    attach(fixture, "trace").run().expect(DONE).calls_named(name)
}

/// A thread that execs waits until the others are gone. Of one that was seized and is dead the tracer has to
/// take the end in, while it seizes the next: which waits for the exec.
#[test]
fn a_thread_that_execs_between_two_seizures_of_others_is_waited_for_and_waits_for_nothing() {
    let Some(mut fixture) = target_of("last") else { return };
    let seizures = calls_named(&fixture, "PTRACE_SEIZE");
    assert!(seizures.len() >= 6, "an attach and a detach of three threads: {seizures:?}");
    let (mut held, mut outcomes) = (0, BTreeMap::<_, u32>::new());
    for call in seizures {
        let (pid, begun) = (fixture.pid(), fixture.page().get(Word::Seen));
        let (is_held, outcome) = meanwhile(&fixture, call, || {
            send("USR1", pid);
            // On a busy machine the call is another one, at which it may stand still.
            wait_until("the exec", PATIENCE, || {
                let begins = fixture.page().get(Word::Seen) > begun && has_begun(&fixture);
                begins || status(pid, "State").starts_with('t')
            });
        });
        let when = format!("begun anew by the last thread at call {call}");
        assert_sound(&outcome, &when);
        *outcomes.entry(outcome.code()).or_default() += 1;
        held += u32::from(is_held);
        if is_held {
            fixture.wait_for("it to begin anew", |f| {
                f.page().get(Word::Seen) > begun && f.page().get(Word::Ready) != 0
            });
        }
        fixture.advance(1);
        fixture.assert_well();
        assert!(!has_ours(pid) && status(pid, "TracerPid") == "0", "{when}");
    }
    println!("begun anew at {held} seizures, exit codes {outcomes:?}");
    assert_mostly(held, &outcomes);
    fixture.finish();
}

/// A thread still stands for us when another one, let go before, execs: the kernel ends it, and the exec
/// waits until its end is taken in, which must not be when the command has come to its own end.
#[test]
fn a_thread_that_execs_while_others_are_let_go_waits_for_no_more_than_that() {
    let Some(mut fixture) = target_of("first") else { return };
    let releases = calls_named(&fixture, "PTRACE_DETACH");
    let mut execed = 0;
    for call in releases.into_iter().rev().take(12) {
        let (pid, begun) = (fixture.pid(), fixture.page().get(Word::Seen));
        let hold = Hold::at(&["call", "detached"]);
        let command = hold.start(attach(&fixture, &format!("hold:{call}")));
        let held = poll(PATIENCE, || {
            let is_held = command.talk().contains("held at call");
            (is_held || command.talk().contains("held at detached")).then_some(is_held)
        });
        if held.expect("it comes to neither") {
            send("USR1", pid);
            let has_execed = || is_execing(pid) || status(pid, "State").starts_with('t');
            wait_until("the exec, or what keeps it", PATIENCE, has_execed);
            execed += u32::from(is_execing(pid));
            hold.let_go("call");
            // The command is held at its last place at most.
            fixture.wait_for("it to begin anew", |f| {
                f.page().get(Word::Seen) > begun && f.page().get(Word::Ready) != 0
            });
        }
        hold.let_go("call");
        hold.let_go("detached");
        assert_sound(&command.wait(), &format!("begun anew at call {call}"));
        fixture.advance(1);
        fixture.assert_well();
        assert!(!has_ours(pid) && status(pid, "TracerPid") == "0", "call {call}");
    }
    println!("begun anew while {execed} others were about to be let go");
    assert!(execed > 0, "no thread was let go while another one execed");
    fixture.finish();
}

/// Whether it is the new program, or a thread of it waits for others to be gone.
fn has_begun(fixture: &Fixture) -> bool {
    let pid = fixture.pid();
    fixture.page().get(Word::Ready) != 0 || is_execing(pid) || status(pid, "Threads") == "1"
}

fn is_execing(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waits = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        text.lines().any(|line| line.starts_with("State:\tD"))
    };
    threads.into_iter().any(waits)
}

/// Another process in the place of the target, as it is then; `None` where the kernel does not allow it.
fn replace(fixture: &mut Fixture) -> Option<Before> {
    match fixture.step(REPLACE, 0) {
        REPLACED => {
            fixture.advance(1);
            Some(Before::of(fixture))
        }
        NOT_ALLOWED => {
            skip("numbers cannot be given to processes here", "run the tests as root, unconfined");
            None
        }
        answer => fixture.fail(&format!("it answers {answer}")),
    }
}

fn assert_left_alone(fixture: &mut Fixture, before: &Before, outcome: &Outcome, when: &str) {
    assert!(outcome.code().is_some_and(|code| code != DONE && code != 101), "{when}: {outcome:?}");
    assert!(!outcome.stderr.contains("panicked"), "{when}: {}", outcome.stderr);
    assert_eq!(status(fixture.pid(), "TracerPid"), "0", "{when}");
    before.assert_equal(fixture, when);
    fixture.advance(1);
}

#[test]
fn a_process_that_comes_to_bear_the_targets_number_is_left_alone() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root gives numbers to processes", "run the tests as root");
    }
    let start = || Some(Launch::new("same_number.c")?.start());
    for place in ["begin", "survey", "stop"] {
        let Some(mut fixture) = start() else { return };
        let hold = Hold::at(&[place]);
        let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record");
        let mut command = hold.start(command);
        hold.wait(&mut command, place);
        let Some(before) = replace(&mut fixture) else { return };
        hold.let_go(place);
        let outcome = command.wait();
        assert_left_alone(&mut fixture, &before, &outcome, &format!("replaced at {place}"));
        fixture.finish();
    }
    for options in [&[][..], &["--follow-forks"]] {
        let Some(mut fixture) = start() else { return };
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--no-record");
        let command = options.iter().fold(command, |command, option| command.arg(*option));
        let session = Attached::start(command, &mut fixture).into_command();
        let Some(before) = replace(&mut fixture) else { return };
        let outcome = session.wait().expect(TARGET_DIED);
        assert_left_alone(&mut fixture, &before, &outcome, &format!("replaced, {options:?}"));
        fixture.finish();
    }
}

#[test]
fn a_target_that_is_stopped_at_any_step_stays_stopped_and_goes_on_when_told_to() {
    let Some(mut fixture) = target() else { return };
    // Its threads have the memory that they ask for first.
    fixture.advance(100);
    let (seed, before) = (seed(), Before::of(&mut fixture));
    let (calls, pid) = (calls(&fixture), fixture.pid());
    let (mut held, mut outcomes) = (0, BTreeMap::<_, u32>::new());
    for call in points(calls, TRIED, &mut Random::new(seed)) {
        let (is_held, outcome) = meanwhile(&fixture, call, || send("STOP", pid));
        let when = format!("stopped at call {call}, seed {seed}");
        // A thread in the midst of our code cannot leave it while it is stopped: that is said.
        let stands = outcome.stderr.contains("did not leave our code");
        if !stands {
            assert_sound(&outcome, &when);
        }
        *outcomes.entry(outcome.code()).or_default() += 1;
        if is_held {
            held += 1;
            wait_until("it to stand still", PATIENCE, || status(pid, "State").starts_with('T'));
            assert_eq!(status(pid, "TracerPid"), "0", "{when}");
        }
        kill(Pid::from_raw(pid), Signal::SIGCONT).expect("it is there");
        if stands {
            assert_eq!(outcome.code(), Some(NOT_RESTORED), "{when}: {}", outcome.stderr);
            Heapattach::detach(pid).run().expect(DONE);
        }
        fixture.advance(1);
        before.assert_equal(&mut fixture, &when);
    }
    println!("stopped at {held} of {calls} calls, exit codes {outcomes:?}, seed {seed}");
    assert_mostly(held, &outcomes);
    fixture.finish();
}
