//! Two commands on one process at about the same time: neither harms the session of the other, or
//! takes what the other has done for what the process is.

use std::{thread, time::Duration};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    deadline::{PATIENCE, wait_until},
    fingerprint::Fingerprint,
    fixture::{Fixture, Launch},
    hold::Hold,
    seed::{Random, seed},
    trace::Before,
};
use nix::sys::signal::Signal;

const DONE: i32 = 0;
const REFUSED: i32 = 3;

fn target() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

fn pages_of_jumps(fixture: &mut Fixture) -> usize {
    fixture.pause();
    let print = Fingerprint::of(fixture.pid());
    fixture.resume();
    print.unwrap_or_else(|error| fixture.fail(&error.to_string())).stub_pages().len()
}

#[test]
fn a_session_that_begins_meanwhile_is_left_alone() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    let hold = Hold::at(&["begin"]);
    let mut second = hold.start(Attached::command(fixture.pid(), Hooks::Auto));
    hold.wait(&mut second, "begin");
    let first = Attached::to(&mut fixture, Hooks::Auto);
    hold.let_go("begin");
    let told = second.wait().expect(REFUSED).stderr;
    assert!(told.contains("another heapattach"), "{told}");
    let hooked = Heapattach::new(["status", "--json"]).run().expect(DONE).stdout;
    assert!(
        hooked.contains(&format!("\"pid\": {}", fixture.pid())),
        "its hooks are gone: {hooked}"
    );
    fixture.advance(10);
    assert!(first.end().calls() > 0);
    before.assert_equal(&mut fixture, "after two commands");
    fixture.finish();
}

#[test]
fn entries_that_another_session_has_patched_while_we_look_are_hooked_as_entries() {
    let Some(mut fixture) = target() else { return };
    let before = Before::of(&mut fixture);
    let hold = Hold::at(&["survey", "stop"]);
    let mut second = hold.start(Attached::command(fixture.pid(), Hooks::Auto));
    hold.wait(&mut second, "survey");
    let first = Attached::to(&mut fixture, Hooks::Auto);
    hold.let_go("survey");
    hold.wait(&mut second, "stop");
    first.end();
    hold.let_go("stop");
    wait_until("it to attach", PATIENCE, || Attached::is_told(&second.talk()));
    second.signal(Signal::SIGINT);
    second.wait().expect(INTERRUPTED);
    assert_eq!(pages_of_jumps(&mut fixture), 0, "it was hooked by slots");
    before.assert_equal(&mut fixture, "after two commands");
    fixture.finish();
}

#[test]
fn commands_that_are_killed_one_after_the_other_leave_nothing() {
    let Some(mut fixture) = target() else { return };
    let (seed, before) = (seed(), Before::of(&mut fixture));
    let mut random = Random::new(seed);
    for turn in 0..20 {
        // The tracing process of one works still when the next one comes.
        let command = Attached::command(fixture.pid(), Hooks::Auto).start();
        thread::sleep(Duration::from_micros(random.between(0, 200_000)));
        command.signal(Signal::SIGKILL);
        command.wait();
        fixture.assert_well();
        if turn % 5 == 4 {
            wait_until("the undo", PATIENCE, || before.trace(&mut fixture).is_empty());
            assert_eq!(pages_of_jumps(&mut fixture), 0, "turn {turn}, seed {seed}");
        }
    }
    fixture.finish();
}

#[test]
fn detach_and_status_tell_the_same() {
    let Some(mut fixture) = target() else { return };
    let pid = fixture.pid().to_string();
    let told = |args: &[&str]| Heapattach::new(args).run().expect(DONE).stdout;
    let nothing = told(&["detach", "-p", &pid]);
    assert_eq!(nothing.trim(), "there was nothing to clean up");
    Attached::to(&mut fixture, Hooks::Slots).end();
    assert_eq!(pages_of_jumps(&mut fixture), 1);
    let left = told(&["detach", "-p", &pid]);
    assert!(left.contains("one page of jumps at 0x"), "{left}");
    let json: serde_json::Value =
        serde_json::from_str(&told(&["detach", "-p", &pid, "--json"])).expect("JSON");
    assert!(json["stub_page"].is_string(), "{json}");
    let status = told(&["status"]);
    let line = status.lines().find(|line| line.trim_start().starts_with(&pid));
    assert!(line.is_some_and(|line| line.contains("the page of jumps")), "{status}");
    fixture.finish();
}
