//! What a process does not write to for a while: true within 5 %, while it reads by the kernel, grows, moves and forks;
//! and nothing stays if one of our processes is killed.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    hold::Hold,
    json_schema,
    page::Word,
    trace::Before,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const INCOMPLETE: i32 = 6;
const INTERRUPTED: i32 = 130;

fn look(fixture: &Fixture, time: &str, options: &[&str]) -> Heapattach {
    let pid = fixture.pid().to_string();
    Heapattach::new([&["heap", "-p", &pid, "--cold", time], options].concat())
}

fn parsed(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Lines of its status, or of its map.
fn field(fixture: &Fixture, file: &str, name: &str) -> String {
    let path = format!("/proc/{}/{file}", fixture.pid());
    let text = std::fs::read_to_string(path).expect("it runs");
    text.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\n")
}

/// Whether any of its pages are watched.
fn is_watched(fixture: &Fixture) -> bool {
    has_watched_pages(fixture.pid())
}

fn has_watched_pages(pid: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut flags = text.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
    flags.any(|flags| flags.split_whitespace().any(|flag| flag == "uw"))
}

#[test]
fn what_is_not_written_is_told_within_five_percent_by_type() {
    let Some(launch) = Launch::new("cold.c") else { return };
    let mut fixture = launch.start();
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE);
    // On a slow machine it takes longer until all is written that is.
    let (document, turns) = ["1s", "4s", "16s", "64s"]
        .iter()
        .map(|time| {
            let before = fixture.progress();
            let told = look(&fixture, time, &["--json"]).run().expect(DONE);
            assert_eq!(json_schema::faults(&parsed(&schema), &parsed(&told)), [""; 0]);
            (parsed(&told), fixture.progress() - before)
        })
        .find(|(_, turns)| *turns > 40)
        .expect("it writes all of its buffers 40 times in a minute");
    fixture.assert_well();
    let cold = &document["cold"];
    let truth = fixture.page().get(Word::Malloc);
    let told = number(&cold["sum"]["cold"]);
    println!(
        "{told} bytes were told of {truth} that {turns} turns did not write; {} reads by io_uring",
        fixture.page().get(Word::Seen)
    );
    assert!(told.abs_diff(truth) * 20 < truth, "{told} {truth}");
    let of = |class: &str, size: u64| {
        let rows = cold["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["class"] == class && number(&row["size"]) >= size);
        row.map_or((0, 0), |row| (number(&row["sum"]["blocks"]), number(&row["sum"]["cold"])))
    };
    let (blocks, bytes) = of("session", 40_000);
    assert!(blocks == 300 && bytes * 20 > 300 * 40_000 * 19, "{blocks} {bytes}: {cold:#}");
    let (blocks, bytes) = of("table", 1 << 20);
    assert!(blocks == 24 && bytes.abs_diff(24 << 19) * 20 < 24 << 19, "{blocks} {bytes}: {cold:#}");
    let (_, bytes) = of("buffer", 24_000);
    assert!(bytes < 24_000, "{bytes}: {cold:#}");
    assert!(!is_watched(&fixture), "nothing is watched any more");
    fixture.finish();
}

#[test]
fn after_a_session_it_is_told_who_allocated_what_is_not_written() {
    let Some(launch) = Launch::new("cold.c") else { return };
    let mut fixture = launch.start();
    let folder = Folder::new("cold-session");
    let recording = folder.0.join("a.heapattach");
    let path = recording.to_str().expect("a path of ours");
    let pid = fixture.pid().to_string();
    let words = ["-p", &pid, "--all", "--census", "--cold", "8s", "--duration", "8s", "-o", path];
    let mut running = Heapattach::new([&words[..], &["--json"]].concat()).start();
    let begun = poll(PATIENCE, || {
        let maps = field(&fixture, "maps", "");
        (maps.contains("memfd:heapattach") || !running.is_running()).then_some(())
    });
    begun.expect("a session");
    fixture.step(1, 0);
    fixture.step(2, 0);
    let outcome = running.wait().expect(DONE);
    let schema = Heapattach::new(["schema", "report"]).run().expect(DONE);
    assert_eq!(json_schema::faults(&parsed(&schema), &parsed(&outcome)), [""; 0]);
    let sites = parsed(&outcome)["census"]["sites"].clone();
    let rows = sites["rows"].as_array().expect("rows");
    let of = |function: &str| {
        let is_it = |row: &&Value| row["place"].as_str().is_some_and(|own| own.contains(function));
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("no {function}: {sites:#}"));
        row["cold"]["value"].as_f64().expect("a number")
    };
    let (idle, busy) = (of("keep_idle"), of("keep_busy"));
    println!("{idle} bytes of those that are not written, {busy} of those that are");
    assert!((idle - 4e6).abs() < 2e5 && busy < 2e5, "{idle} {busy}: {sites:#}");
    let told = Heapattach::new(["report", path]).run().expect(DONE).stdout;
    assert!(told.contains("Not written after the session"), "{told}");
    fixture.finish();
}

#[test]
fn the_process_is_as_it_was_afterwards() {
    let Some(mut fixture) = Launch::new("steady.c").map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let of = |fixture: &mut Fixture| {
        fixture.pause();
        let tables = field(fixture, "status", "VmPTE");
        let tables = tables.split_whitespace().nth(1).and_then(|kib| kib.parse().ok());
        let seen: (u64, usize) =
            (tables.expect("a number"), field(fixture, "maps", "").lines().count());
        fixture.resume();
        seen
    };
    let then = of(&mut fixture);
    let mut running = look(&fixture, "1h", &[]).start();
    poll(PATIENCE, || is_watched(&fixture).then_some(())).expect("its pages are watched");
    assert!(running.is_running());
    fixture.advance(100);
    // Who waits for an hour is not waited for.
    running.signal(Signal::SIGINT);
    let outcome = running.wait().expect(INTERRUPTED);
    assert_eq!(outcome.stdout, "");
    assert!(!is_watched(&fixture));
    // A thread can be merging free blocks at the moment: then it is told that the look is not exact.
    let text = poll(PATIENCE, || {
        let outcome = look(&fixture, "50ms", &[]).run();
        if outcome.code() == Some(DONE) {
            return Some(outcome.stdout);
        }
        assert!(outcome.expect(INCOMPLETE).stdout.contains("DOUBT"), "it does not say why");
        None
    });
    let text = text.expect("an exact look");
    assert!(text.contains("COLD") && text.contains("were not written for"), "{text}");
    let now = of(&mut fixture);
    // A look of any kind may leave a page table more, where it was mapped; pages that were never there get none.
    assert!(now.0 <= then.0 + 8 && now.1 == then.1, "{then:?} {now:?}");
    before.assert_equal(&mut fixture, "after its pages were watched");
    fixture.finish();
}

#[test]
fn who_watches_may_be_killed() {
    for who in ["command", "both"] {
        let Some(mut fixture) = Launch::new("steady.c").map(Launch::start) else { return };
        let before = Before::of(&mut fixture);
        let running = look(&fixture, "1h", &[]).start();
        poll(PATIENCE, || is_watched(&fixture).then_some(())).expect("its pages are watched");
        if who == "both" {
            let children = format!("/proc/{0}/task/{0}/children", running.pid());
            let children = std::fs::read_to_string(children).expect("its children");
            for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), Signal::SIGKILL);
            }
        }
        running.signal(Signal::SIGKILL);
        running.wait();
        poll(PATIENCE, || (!is_watched(&fixture)).then_some(())).expect("the watch ends with us");
        fixture.advance(100);
        before.assert_equal(&mut fixture, who);
        fixture.finish();
    }
}

#[test]
fn a_descriptor_of_a_killed_heapattach_is_closed() {
    let Some(mut fixture) = Launch::new("steady.c").map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let hold = Hold::at(&["userfaultfd"]);
    let mut running = hold.start(look(&fixture, "1h", &[]));
    hold.wait(&mut running, "userfaultfd");
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    let children = std::fs::read_to_string(children).expect("its children");
    for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), Signal::SIGKILL);
    }
    let outcome = running.wait();
    assert_eq!(outcome.code(), Some(7), "{outcome:?}");
    fixture.advance(100);
    let links = || {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", fixture.pid())).expect("it runs");
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| link.as_os_str() == "anon_inode:[userfaultfd]").count()
    };
    assert_eq!(links(), 1, "it was made, and not closed");
    Heapattach::detach(fixture.pid()).run().expect(DONE);
    assert_eq!(links(), 0);
    before.assert_equal(&mut fixture, "after its descriptor was closed");
    fixture.finish();
}

#[test]
fn what_cannot_be_watched_is_refused_by_name() {
    let Some(launch) = Launch::new("cold.c") else { return };
    let mut fixture = launch.arg("own").start();
    let outcome = look(&fixture, "1s", &[]).run().expect(REFUSED);
    let said = outcome.stderr + &outcome.stdout;
    assert!(said.contains("has a userfaultfd of its own") && said.contains("untouched"), "{said}");
    fixture.assert_well();
    let pid = fixture.pid().to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--view", "cold"]).run().expect(USAGE);
    assert!(outcome.stderr.contains("--cold TIME"), "{}", outcome.stderr);
    fixture.finish();
}

#[test]
fn a_process_that_ends_meanwhile_is_told_to_have_ended() {
    let Some(fixture) = Launch::new("steady.c").map(Launch::start) else { return };
    let running = look(&fixture, "3s", &[]).limit(Duration::from_secs(600)).start();
    poll(PATIENCE, || is_watched(&fixture).then_some(())).expect("its pages are watched");
    fixture.finish();
    let outcome = running.wait();
    assert_eq!(outcome.code(), Some(FAILED), "{outcome:?}");
    let said = outcome.stderr + &outcome.stdout;
    assert!(said.contains("the process ended or began another program"), "{said}");
}

#[test]
fn a_process_that_begins_another_program_meanwhile_is_told_to_have_done_so() {
    let mut shell = Command::new("sh")
        .args(["-c", "read line; exec cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let pid = shell.id().cast_signed();
    let words = ["heap", "-p", &pid.to_string(), "--cold", "3s"];
    let running = Heapattach::new(words).start();
    poll(PATIENCE, || has_watched_pages(pid).then_some(())).expect("its pages are watched");
    shell.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("it reads");
    poll(PATIENCE, || (!has_watched_pages(pid)).then_some(())).expect("another program");
    let outcome = running.wait();
    // It ends when its input does.
    drop(shell.stdin.take());
    assert!(shell.wait().expect("its end").success());
    assert_eq!(outcome.code(), Some(FAILED), "{outcome:?}");
    let said = outcome.stderr + &outcome.stdout;
    assert!(said.contains("began another program meanwhile"), "{said}");
}
