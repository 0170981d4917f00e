//! What moves while the user waits: on a terminal, for those who talk to one, and never in the way of what
//! is done.

use std::time::Duration;

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    pty::Pty,
    trace::Before,
};

fn steady() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

fn session(fixture: &Fixture, duration: &str) -> Heapattach {
    let pid = fixture.pid().to_string();
    Heapattach::new(["-p", &pid, "--duration", duration, "--json", "--no-record"])
        .target(fixture.pid())
}

#[test]
fn a_session_has_a_bar_with_the_time_that_is_left_and_nothing_of_it_stays() {
    let Some(mut fixture) = steady() else { return };
    let mut pty = Pty::new();
    let running = session(&fixture, "3s").terminal(pty.slave()).start();
    wait_until("a bar", PATIENCE, || {
        let seen = pty.seen();
        seen.contains("s left") && seen.contains(" calls, ")
    });
    let outcome = running.wait().expect(0);
    assert_eq!(outcome.report().target, "restored");
    assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stdout.contains(" left"));
    let lines = pty.lines();
    let told: Vec<_> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    assert!(!told.is_empty() && told.iter().all(|l| l.starts_with("heapattach: ")), "{told:?}");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn without_a_terminal_there_is_not_one_byte_of_it() {
    let Some(mut fixture) = steady() else { return };
    let plain = |text: &str| {
        let lines = text.lines().all(|line| line.trim_end().starts_with("heapattach: "));
        lines && !text.contains('\u{1b}') && !text.contains(" left")
    };
    let outcome = session(&fixture, "700ms").run().expect(0);
    assert!(plain(&outcome.stderr) && !outcome.stderr.contains('\r'), "{}", outcome.stderr);
    let mut pty = Pty::new();
    session(&fixture, "700ms").terminal(pty.slave()).env("TERM", "dumb").run().expect(0);
    assert!(plain(&pty.seen()), "{}", pty.seen());
    fixture.assert_well();
    fixture.finish();
}

/// Ctrl-S, a window of a multiplexer that nothing reads: what cannot be shown is not waited for.
#[test]
fn a_terminal_that_takes_nothing_holds_up_neither_the_target_nor_the_detach() {
    let Some(mut fixture) = steady() else { return };
    fixture.advance(100);
    let before = Before::of(&mut fixture);
    for is_held_from_begin in [true, false] {
        let mut pty = Pty::new();
        if is_held_from_begin {
            pty.hold();
        }
        let running = session(&fixture, "3s").terminal(pty.slave()).start();
        if !is_held_from_begin {
            wait_until("a bar", PATIENCE, || pty.seen().contains("s left"));
            pty.hold();
        }
        fixture.advance(1000);
        let outcome = running.wait().expect(0);
        let report = outcome.report();
        assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"));
        assert!(report.functions.iter().any(|row| row.calls > 0), "{report:?}");
        assert!(outcome.took < Duration::from_secs(60), "{:?}", outcome.took);
        before.assert_equal(&mut fixture, "after a terminal that took nothing");
    }
    fixture.finish();
}
