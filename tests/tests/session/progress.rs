//! What moves while the user waits: on a terminal, for those who talk to one, and never in the way of what
//! is done.

use std::{
    fs,
    time::{Duration, Instant},
};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    pty::Pty,
    recorded::Recorded,
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
    // A bar is not waited for that cannot be removed in a while, as where no processor is to be had.
    let is_removed = (0..3).any(|_| {
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
        println!("{told:?}");
        !told.is_empty() && told.iter().all(|l| l.starts_with("heapattach: "))
    });
    assert!(is_removed, "a bar stays");
    fixture.assert_well();
    fixture.finish();
}

/// Commands are copied, and are whole however long they are; so are the messages before the report.
#[test]
fn no_line_of_a_report_is_wider_than_the_terminal() {
    for columns in [80, 200] {
        let mut pty = Pty::of_columns(columns);
        let run = ["run", "--all", "--no-record", "--", "sort", "/dev/null"];
        let running = Heapattach::new(run).env("NO_COLOR", "1").terminal(pty.slave()).start();
        // A terminal has room for some lines only: it is read while they are written.
        wait_until("most of the report", PATIENCE, || pty.seen().contains("\nACCURACY "));
        running.wait().expect(0);
        let lines = pty.lines();
        let is_command = |line: &&String| line.contains("heapattach");
        for line in lines.iter().filter(|line| !is_command(line)) {
            assert!(line.trim_end().chars().count() <= usize::from(columns), "{columns}: {line}");
        }
        assert!(lines.iter().any(|line| line.starts_with("ACCURACY")), "{lines:?}");
    }
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

/// A program whose heap is large, so that it takes long to be looked through: it grows to 300 MB in small blocks,
/// over and over.
fn large() -> Option<Fixture> {
    Some(Launch::new("hammer.c")?.arg("2").arg("400").arg("grow").start())
}

/// Whether a command says on a terminal what this looks for. Some of the commands may be too fast to say it, as
/// they are where the fixture's heap is small at the moment: it is tried again and again.
fn is_seen(command: impl Fn(u32) -> Heapattach, is_it: impl Fn(&str) -> bool) -> bool {
    let begin = Instant::now();
    (0..).take_while(|_| begin.elapsed() < PATIENCE).any(|turn| {
        let mut pty = Pty::new();
        let mut running = command(turn).terminal(pty.slave()).start();
        let mut seen = false;
        wait_until("an end", PATIENCE, || {
            seen = seen || is_it(&pty.seen());
            !running.is_running()
        });
        let outcome = running.wait();
        assert_eq!(outcome.signal(), None, "{}", pty.seen());
        seen || is_it(&pty.seen())
    })
}

#[test]
fn a_large_recording_is_read_with_the_part_that_is_done() {
    let Some(mut fixture) = large() else { return };
    let recording = Recorded::new();
    let is_seen = is_seen(
        |turn| {
            // What is recorded grows until reading it takes long enough to be seen.
            let duration = format!("{}s", 2 << turn.min(5));
            let pid = fixture.pid().to_string();
            let _ = fs::remove_file(&recording.0);
            let record = Heapattach::new(["-p", &pid, "--all", "--duration", &duration]);
            record.arg("--json").arg("-o").arg(&recording.0).target(fixture.pid()).run().expect(0);
            Heapattach::new(["report"]).arg(&recording.0)
        },
        |seen| seen.contains("reading ") && seen.contains('▕'),
    );
    assert!(is_seen, "a bar of reading");
    let plain = Heapattach::new(["report"]).arg(&recording.0).run().expect(0);
    assert!(!plain.stderr.contains("reading"), "{}", plain.stderr);
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_large_heap_is_looked_through_with_the_bytes_that_were_read() {
    let Some(mut fixture) = large() else { return };
    let pid = fixture.pid().to_string();
    let heap = || Heapattach::new(["heap", "-p", &pid, "--view", "holders"]).target(fixture.pid());
    let read = |seen: &str| {
        let mut told = seen.split("looking through memory: ").skip(1);
        told.any(|rest| rest.contains("MiB read"))
    };
    assert!(is_seen(|_| heap(), read), "bytes that were read");
    let plain = heap().run().expect(0);
    assert!(!plain.stderr.contains("looking through"), "{}", plain.stderr);
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_check_tells_how_much_was_looked_through() {
    let Some(mut fixture) = large() else { return };
    let pid = fixture.pid().to_string();
    let check = || {
        let command = Heapattach::new(["check", "-p", &pid, "--duration", "2s", "--json"]);
        command.target(fixture.pid())
    };
    let told = |seen: &str| {
        let mut told = seen.split("looking for pointers: ").skip(1);
        told.any(|rest| rest.contains("iB of "))
    };
    assert!(is_seen(|_| check(), told), "bytes of so many");
    fixture.assert_well();
    fixture.finish();
}
