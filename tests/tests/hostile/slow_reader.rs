//! The reader of the records is slow, or is stopped: the target goes on, and the report says what is
//! missing.

use std::fs;

use heapattach_recording::Recording;
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, binary},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    page::{Page, Word},
    real::children,
    recorded::Recorded,
    report::{Report, fresh_file},
    trace::Before,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

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
    let file = Recorded::new();
    let command = recording(&fixture, "4KiB").arg("--on-full=slow").arg("-o").arg(&file.0);
    let attached = Attached::start(command, &mut fixture);
    let tracer = attached.tracer();
    kill(tracer, Signal::SIGSTOP).expect("a child of our child");
    fixture.advance(5_000);
    kill(tracer, Signal::SIGCONT).expect("a child of our child");
    // The thread that counts what was dropped samples less in the same turn.
    wait_until("what was dropped to be counted", PATIENCE, || {
        let recording = Recording::open(&file.0);
        recording.is_ok_and(|read| read.ledger(None).about.loss.blocks > 0)
    });
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
    // Many rings full: it waits once for all of them.
    fixture.advance(20_000);
    kill(tracer, Signal::SIGCONT).expect("a child of our child");
    fixture.advance(1000);
    let report = attached.end();
    let lost = &report.heap.lost;
    // What was given up is counted, and nothing was written over.
    assert!(lost["blocks"] > 0 && lost["torn"] == 0, "{lost:?}");
    fixture.finish();
}

/// What has everything recorded waits of itself, also where it has started the program.
#[test]
fn a_program_that_was_started_does_not_wait_for_ever_either() {
    let Some(program) = Source::new("steady.c").build() else { return };
    for words in [&["run", "--all", "--no-record", "--ring=4KiB"][..], &["check"]] {
        let (page, file) = (Page::create().expect("a temporary file"), fresh_file());
        let advance = |steps: u64| {
            let goal = page.get(Word::Progress) + steps;
            wait_until("the program to go on", PATIENCE, || page.get(Word::Progress) >= goal);
        };
        let command = Heapattach::new(words).arg("--json").arg("--report").arg(&file);
        let place = page.path().to_str().expect("a path of ours").to_owned();
        let command = command.arg("--").arg(&program).env("FIXTURE_PAGE", &place).start();
        // It is hooked before its first instruction.
        advance(1000);
        let tracer = tracer_of(command.pid());
        suspend(tracer);
        // Many rings full.
        advance(20_000);
        kill(tracer, Signal::SIGCONT).expect("a child of our child");
        advance(1000);
        page.set(Word::Stop, 1);
        let said = command.wait().stderr;
        let text = fs::read_to_string(&file).unwrap_or_default();
        let report: Report = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {said}"));
        let lost = &report.heap.lost;
        assert!(lost["blocks"] > 0 && lost["torn"] == 0, "{words:?}: {lost:?}");
        assert_eq!(page.get(Word::Errors), 0, "{said}");
    }
}

/// The process of a command that does its work.
fn tracer_of(command: i32) -> Pid {
    let is_ours = |pid: &i32| {
        let own = fs::read_link(format!("/proc/{pid}/exe"));
        own.is_ok_and(|own| binary().canonicalize().is_ok_and(|binary| own == binary))
    };
    let tracer = children(command).into_iter().find(is_ours);
    Pid::from_raw(tracer.expect("the command has a tracing process"))
}

/// Suspends it while it reads, not in a stop of the program: that would be as long as it is suspended.
fn suspend(tracer: Pid) {
    let is_at_rest = || {
        kill(tracer, Signal::SIGSTOP).expect("a child of our child");
        wait_until("it to be suspended", PATIENCE, || states(tracer.as_raw()).contains(&'T'));
        let target = children(tracer.as_raw()).first().copied();
        let holds = states(target.expect("the program is its child")).contains(&'t');
        if holds {
            kill(tracer, Signal::SIGCONT).expect("a child of our child");
        }
        !holds
    };
    wait_until("a moment between its stops", PATIENCE, is_at_rest);
}

/// The states of all threads of a process.
fn states(pid: i32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    threads.filter_map(state).collect()
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
