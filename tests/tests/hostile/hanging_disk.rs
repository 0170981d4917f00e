//! A disk that gives nothing back, without an error: neither the recording on it nor the program that lies
//! there keeps the target, or us.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    check::Stepping,
    command::{Heapattach, Hooks, Running},
    compile::Source,
    deadline::{PATIENCE, poll, wait_until},
    fixture::Launch,
    hanging_disk::HangingDisk,
    recorded::Recorded,
    skip::skip,
    trace::Before,
};
use nix::{sys::signal::Signal, unistd::geteuid};
use serde_json::Value;

/// What takes longer waits for the disk: a session needs a second for its end, on a busy machine some more.
const NORMAL: Duration = Duration::from_secs(60);

/// The exit status of a check without a verdict.
const NOTHING_CONCLUDED: i32 = 6;

/// Of memory, and of what is read at once.
const PAGE: u64 = 4096;

fn disk() -> Option<HangingDisk> {
    if !geteuid().is_root() {
        skip("only root may mount", "run the tests as root");
        return None;
    }
    let disk = HangingDisk::new();
    disk.map_err(|why| skip(&why, "load the kernel module fuse, and allow mounts")).ok()
}

/// A reader of a file of the disk waits until the disk answers again.
fn assert_hangs(disk: &HangingDisk, name: &str) {
    let mut cat = Command::new("cat");
    let mut cat = cat.arg(disk.path(name)).stdout(Stdio::null()).spawn().expect("cat runs");
    // A process that wants the same page as an earlier one sends no request of its own.
    wait_until("a reader to hang", PATIENCE, || disk.waiting() > 0);
    assert!(cat.try_wait().expect("a child of ours").is_none(), "it does not hang");
    disk.thaw();
    assert!(cat.wait().expect("a child of ours").success());
}

fn is_mapped(pid: i32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.is_ok_and(|maps| maps.contains("/memfd:heapattach"))
}

/// The summary of a session is that of its recording: both are told from one ledger.
fn assert_same(summary: &Value, recording: &Recorded) {
    let words = [recording.0.to_str().expect("a path of ours"), "--json"];
    let shown = Heapattach::new(["report"]).arg(words[0]).arg(words[1]).run().expect(0);
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    for part in ["live", "allocated", "freed", "peak", "sites", "blind", "course", "verdict"] {
        assert_eq!(summary[part], shown[part], "{part}");
    }
}

/// With a verdict on growth, for which the recording would have to be read, and without.
#[test]
fn a_recording_on_a_disk_that_gives_nothing_back_costs_nothing() {
    let Some(disk) = disk() else { return };
    for growth in [false, true] {
        let Some(launch) = Launch::new("steady.c") else { return };
        let mut fixture = launch.start();
        fixture.advance(100);
        let before = Before::of(&mut fixture);
        disk.hang();
        let name = if growth { "b" } else { "a" };
        let output = disk.path(name).to_str().expect("a path of ours").to_owned();
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--all");
        let command = command.arg("-o").arg(output);
        let command = if growth { command.arg("--flow") } else { command };
        let began = Instant::now();
        let attached = Attached::start(command, &mut fixture);
        fixture.advance(1000);
        let command = attached.into_command();
        command.signal(Signal::SIGINT);
        let ended = Instant::now();
        let outcome = command.wait().expect(INTERRUPTED);
        // The process that reads it back in vain is waited for, and is stuck.
        let bound = NORMAL;
        assert!(ended.elapsed() < bound, "{:?} of {:?}", ended.elapsed(), began.elapsed());
        let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        assert_eq!(report["error"], Value::Null, "{report}");
        let live = report["summary"]["allocated"]["bytes"]["value"].as_f64();
        assert!(live.is_some_and(|bytes| bytes > 0.0), "{report}");
        let blind = report["blind"].as_array().expect("a list");
        let is_said = blind.iter().any(|what| what.to_string().contains("has not answered"));
        assert_eq!(is_said, growth, "{blind:?}");
        before.assert_equal(&mut fixture, "after a disk that hangs");
        fixture.finish();
        assert_hangs(&disk, name);
        let written = Recorded::new();
        fs::write(&written.0, disk.bytes(name).expect("it is written")).expect("a file of ours");
        if !growth {
            assert_same(&report["summary"], &written);
        }
    }
}

/// Parts of the program's file that are not in memory by then cannot be read: its head, its code, the
/// names at its end.
#[test]
fn a_program_on_a_disk_that_gives_nothing_more_runs_on_and_ctrl_c_ends_us() {
    let Some(disk) = disk() else { return };
    let Some(built) = Source::new("steady.c").build() else { return };
    let program = disk.put("steady", &built);
    let length = fs::metadata(&built).expect("a program of ours").len();
    let mut fixture = Launch::program(&program).start();
    fixture.advance(100);
    let before = Before::of(&mut fixture);
    for part in [0, PAGE, length / 2, length - PAGE] {
        // To look at it was to read all of it.
        disk.forget("steady");
        fixture.advance(1000);
        let file = fs::File::open(&program).expect("it is there");
        file.take(part).read_to_end(&mut Vec::new()).expect("it does not hang yet");
        disk.hang();
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--all").start();
        wait_until("us to read, or to be attached", PATIENCE, || {
            disk.waiting() > 0 || Attached::is_told(&command.talk())
        });
        fixture.advance(1000);
        command.signal(Signal::SIGINT);
        let ended = Instant::now();
        let outcome = command.wait();
        assert!(ended.elapsed() < NORMAL, "{part}: {:?}: {outcome:?}", ended.elapsed());
        let gone = poll(NORMAL, || (!is_mapped(fixture.pid())).then_some(()));
        assert!(gone.is_some(), "{part}: {outcome:?}");
        fixture.advance(1000);
        disk.thaw();
        before.assert_equal(&mut fixture, &format!("after a disk that hangs from {part} on"));
    }
    fixture.finish();
}

/// Names are looked up after the target is let go: from then on the user may stop waiting. The first page
/// of the program's file, which names its loader, is not in memory: nothing may be read there.
#[test]
fn a_disk_that_hangs_in_mid_session_keeps_nobody_who_presses_ctrl_c_again() {
    let Some(disk) = disk() else { return };
    // The loader looks for no more names there once it runs.
    let Some(built) = Source::new("steady.c").flag("-Wl,-z,now").build() else { return };
    let program = disk.put("steady", &built);
    let mut fixture = Launch::program(&program).start();
    fixture.advance(100);
    let before = Before::of(&mut fixture);
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--all");
    let attached = Attached::start(command, &mut fixture);
    disk.forget("steady");
    fixture.advance(1000);
    disk.hang();
    disk.forget_start("steady", PAGE);
    let mut command = attached.into_command();
    command.signal(Signal::SIGINT);
    let gone = poll(PATIENCE, || (!is_mapped(fixture.pid())).then_some(()));
    assert!(gone.is_some(), "the target is not let go: {}", command.talk());
    fixture.advance(1000);
    // Until it looks for names, to ask again changes nothing; and once it was heard, once is enough.
    // While it writes its result, to ask again ends it: it has time to do that.
    wait_until("it not to wait for names", PATIENCE, || {
        command.signal(Signal::SIGINT);
        let mut is_heard = || command.talk().contains("reporting without") || !command.is_running();
        poll(Duration::from_secs(2), || is_heard().then_some(())).is_some()
    });
    let outcome = command.wait().expect(INTERRUPTED);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let blind = report["blind"].to_string();
    assert!(blind.contains("were not waited for any longer"), "{blind}");
    disk.thaw();
    before.assert_equal(&mut fixture, "after a disk that hung in mid-session");
    fixture.finish();
}

/// A program that leaks with each line that it reads, on a disk that will hang: what it runs is in memory,
/// but not what its functions are called.
fn leaking(disk: &HangingDisk) -> Option<Stepping> {
    let built = Source::new("leaking_steps.c").flag("-Wl,-z,now").build()?;
    let program = disk.put("leaking", &built);
    let mut first = Stepping::start(&program, &[]);
    first.step();
    Some(first)
}

/// Nothing is read of the program's file from now on, but what another process of it has just run.
fn hang_under(disk: &HangingDisk) {
    disk.forget("leaking");
    let mut other = Stepping::start(&disk.path("leaking"), &[]);
    other.step();
    assert_eq!(other.end(), Some(0));
    disk.hang();
    disk.forget_start("leaking", PAGE);
}

/// Asks for the end until the command has heard it; what it has to say then.
fn interrupted(mut command: Running, program: &Stepping) -> Value {
    command.signal(Signal::SIGINT);
    let gone = poll(PATIENCE, || (!is_mapped(program.pid())).then_some(()));
    assert!(gone.is_some(), "the target is not let go: {}", command.talk());
    // Until it looks for names, to ask again changes nothing.
    wait_until("it not to wait for names", PATIENCE, || {
        command.signal(Signal::SIGINT);
        let mut is_heard = || command.talk().contains("reporting without") || !command.is_running();
        poll(Duration::from_millis(500), || is_heard().then_some(())).is_some()
    });
    let outcome = command.wait().expect(NOTHING_CONCLUDED);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// Which leaks are suppressed is told by names: without them there is no verdict.
#[test]
fn a_check_whose_names_cannot_be_read_lets_the_target_go_and_says_so() {
    for rounds in [false, true] {
        let Some(disk) = disk() else { return };
        let Some(mut program) = leaking(&disk) else { return };
        let pid = program.pid().to_string();
        let command = Heapattach::new(["check", "-p", &pid, "--json", "--max-pause=60s"]);
        let command = if rounds { command.arg("--every").arg("100ms") } else { command };
        let mut command = command.start();
        let said = poll(PATIENCE, || {
            let talk = command.talk();
            (talk.contains("attached to") || !command.is_running()).then_some(talk)
        });
        assert!(said.as_ref().is_some_and(|talk| talk.contains("attached to")), "{said:?}");
        hang_under(&disk);
        program.step();
        if rounds {
            wait_until("a check to want names", PATIENCE, || disk.waiting() > 0);
        }
        program.step();
        let report = interrupted(command, &program);
        assert!(report["error"].to_string().contains("were not waited for"), "{report}");
        assert_eq!(report["target"], "restored", "{report}");
        program.step();
        disk.thaw();
        assert_eq!(program.end(), Some(0));
    }
}
