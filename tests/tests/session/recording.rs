//! What is recorded is what happened: places, threads, moments; in all and in parts; and no matter what
//! ends a session, the file has what was recorded until then.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use heapattach_ledger::Metric;
use heapattach_recording::Recording;
use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    compile::Source,
    deadline::{PATIENCE, poll, wait_until},
    fixture::Launch,
    recorded::{Recorded, accounts, assert_consistent},
    seed::seed,
    skip::skip,
    truth::{self, EXACT, MARK, ROUND, assert_exact, run, told, whole},
};
use nix::sys::signal::{Signal, kill};

const FAILED: i32 = 1;
const FOREVER: Duration = Duration::from_secs(1 << 30);

fn text(file: &Recorded) -> String {
    file.0.to_str().expect("a path of ours").to_owned()
}

/// The ledger of a run of a program that is recorded in full is what the program says.
fn is_exact_in_a_run(source: &str) {
    let Some(program) = Source::new(source).build() else { return };
    let seed = seed().to_string();
    for (threads, turns) in [("1", "20000"), ("4", "5000"), ("64", "500")] {
        let file = Recorded::new();
        let output = text(&file);
        let options = [&EXACT[..], &["-o", &output]].concat();
        let (outcome, report) = run(&options, &program, &[threads, turns, &seed]);
        let truth = truth::accounts(&outcome.stdout);
        let what = format!("{source} {threads} {turns} {seed}");
        assert_exact(&what, &report, &truth);
        let recording = file.open();
        assert!(recording.is_final() && recording.damage().is_none(), "{what}");
        // The sums that were written at the end, and what happened, added up.
        for window in [None, Some(Duration::ZERO..FOREVER)] {
            let ledger = recording.ledger(window);
            assert_eq!(accounts(&ledger, &truth), truth, "{what}");
            assert_consistent(&what, &ledger);
            let total = ledger.total.measure(Metric::Allocated);
            assert_eq!(total.bytes.value, report.heap.allocated.bytes.value, "{what}");
        }
        let size = fs::metadata(&file.0).expect("it is there").len();
        let events = recording.ledger(None).total.measure(Metric::Allocated).count.value * 2.0;
        println!("{what}: {size} bytes, {:.2} an event", size as f64 / events);
    }
}

#[test]
fn a_recording_of_c_is_exact() {
    is_exact_in_a_run("truth.c");
}

#[test]
fn a_recording_of_cpp_is_exact() {
    is_exact_in_a_run("truth.cpp");
}

#[test]
fn a_recording_of_rust_is_exact() {
    is_exact_in_a_run("truth.rs");
}

/// Each row is of one thread, and threads have their names.
#[test]
fn threads_are_told_apart() {
    let Some(launch) = Launch::new("truth.c") else { return };
    let mut fixture = launch.arg("4").arg("3000").arg(seed().to_string()).start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::start(command, &mut fixture);
    fixture.step(ROUND, 0);
    // Who they are is looked up while they live.
    let pid = fixture.pid();
    std::thread::sleep(Duration::from_millis(100));
    fixture.step(ROUND, 0);
    attached.end();
    let ledger = file.ledger();
    let mut tasks: Vec<i32> = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("it lives")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    tasks.sort_unstable();
    let mut blocks = std::collections::BTreeMap::new();
    for row in &ledger.rows {
        let thread = &ledger.threads[row.thread as usize];
        assert!(tasks.contains(&thread.tid), "{thread:?} of {tasks:?}");
        assert!(!thread.name.is_empty(), "{thread:?}");
        *blocks.entry(thread.tid).or_default() += whole(row.measure(Metric::Allocated).count.value);
    }
    // All four do the same.
    let (least, most) = (blocks.values().min(), blocks.values().max());
    let (least, most): (&u64, &u64) = least.zip(most).expect("there are rows");
    assert!(blocks.len() >= 4 && least * 2 > *most, "{blocks:?}");
    fixture.finish();
}

#[test]
fn a_sampled_recording_says_what_the_report_says() {
    let Some(launch) = Launch::new("truth_sizes.c") else { return };
    let mut fixture = launch.arg("4").arg("15000").arg(seed().to_string()).start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let command = command.arg("--every").arg("4KiB").arg("--on-full").arg("wait");
    let attached = Attached::start(command, &mut fixture);
    fixture.step(ROUND, 0);
    let report = attached.end();
    let truth = truth::sizes(&told(&mut fixture));
    let ledger = file.ledger();
    assert_consistent("sampled", &ledger);
    let heap = &report.heap;
    for (metric, told) in [
        (Metric::Allocated, heap.allocated),
        (Metric::Live, heap.live),
        (Metric::Freed, heap.freed),
    ] {
        let measure = ledger.total.measure(metric);
        for (ours, theirs) in [(measure.bytes, told.bytes), (measure.count, told.blocks)] {
            for (a, b) in
                [(ours.value, theirs.value), (ours.low, theirs.low), (ours.high, theirs.high)]
            {
                assert!(
                    (a - b).abs() <= 1e-9 * a.abs().max(1.0),
                    "{metric:?}: {ours:?} {theirs:?}"
                );
            }
        }
    }
    // One interval in twenty does not hold the truth; three times as wide hardly any does not.
    let bytes: u64 = truth.iter().map(|size| size.size * size.blocks).sum();
    let got = ledger.total.measure(Metric::Allocated).bytes;
    let error = (got.value - bytes as f64).abs();
    assert!(error <= 3.0 * (got.high - got.low) / 2.0, "{bytes} bytes and {got:?}");
    fixture.finish();
}

#[test]
fn a_window_is_a_session_of_its_own() {
    let Some(launch) = Launch::new("truth.c") else { return };
    let mut fixture = launch.arg("2").arg("3000").arg(seed().to_string()).start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::start(command, &mut fixture);
    fixture.step(ROUND, 0);
    let first = truth::accounts(&told(&mut fixture));
    wait_until("the first round to be recorded", PATIENCE, || {
        let recording = Recording::open(&file.0);
        recording.is_ok_and(|read| accounts(&read.ledger(None), &first) == first)
    });
    kill(nix::unistd::Pid::from_raw(attached.pid()), Signal::SIGUSR1).expect("it lives");
    let marked = || Some(Recording::open(&file.0).ok()?.marks().first()?.at_ms);
    let middle = poll(PATIENCE, marked).expect("a mark between the rounds");
    fixture.step(MARK, 0);
    fixture.step(ROUND, 0);
    attached.end();
    let truth = truth::accounts(&told(&mut fixture));
    let recording = file.open();
    // The mark is of whole milliseconds, rounded down.
    let ledger = recording.ledger(Some(Duration::from_millis(middle + 1)..FOREVER));
    assert_eq!(accounts(&ledger, &truth), truth);
    assert!(recording.moments().len() >= 2, "{:?}", recording.moments());
    let last = recording.moments().last().expect("some");
    let live = ledger.total.measure(Metric::Live).bytes.value;
    assert!(last.rss.is_some_and(|rss| rss > 0) && last.live >= live * 0.99, "{last:?} {live}");
    fixture.finish();
}

/// Ends the tracing process, or the command, by SIGKILL, and answers what was recorded until then.
fn killed(of_tracer: bool) -> Recording {
    let mut fixture = Launch::new("steady.c").expect("C can be compiled").start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let attached = Attached::start(command.arg("--all").arg("--on-full=wait"), &mut fixture);
    // What is recorded is on disk after a second.
    let has_events = || {
        let recording = Recording::open(&file.0).ok()?;
        let ledger = recording.ledger(None);
        let count = ledger.total.measure(Metric::Allocated).count.value;
        (count > 100.0 && ledger.about.lasted_ms > 0).then_some(())
    };
    assert!(poll(PATIENCE, has_events).is_some(), "nothing is on disk in mid-session");
    let tracer = attached.tracer();
    if of_tracer {
        kill(tracer, Signal::SIGKILL).expect("it lives");
    } else {
        attached.into_command().signal(Signal::SIGKILL);
        let path = std::path::PathBuf::from(format!("/proc/{tracer}"));
        assert!(poll(PATIENCE, || (!path.exists()).then_some(())).is_some(), "it does not end");
    }
    let recording = file.open();
    Heapattach::detach(fixture.pid()).run();
    fixture.advance(10);
    fixture.finish();
    recording
}

#[test]
fn what_was_recorded_survives_whoever_records() {
    if Source::new("steady.c").build().is_none() {
        return;
    }
    let recording = killed(true);
    assert!(!recording.is_final());
    let ledger = recording.ledger(None);
    assert_consistent("killed", &ledger);
    assert!(ledger.about.lasted_ms > 0 && ledger.about.outcome.is_empty(), "{:?}", ledger.about);
    // Names come from the files here: they are not part of it yet.
    let named = ledger.rows.iter().filter_map(|row| ledger.cause(row.stack));
    assert!(named.clone().count() > 0 && named.clone().all(|call| call.function.is_named));
    let recording = killed(false);
    assert!(recording.is_final(), "the command is gone, and the session is ended as it should be");
    assert_consistent("abandoned", &recording.ledger(None));
}

/// A file system with room for little more than nothing.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("heapattach-disk-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let mut mount = std::process::Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=8k", "none"]).arg(&folder).status();
        if !mount.is_ok_and(|status| status.success()) {
            let _ = fs::remove_dir(&folder);
            skip("no file system can be mounted", "run as root");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_disk_is_said_and_what_is_before_is_whole() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let Some(disk) = SmallDisk::mount() else { return };
    let fixture = launch.start();
    let file = Recorded(disk.0.join("a.heapattach"));
    let attach = Heapattach::attach(fixture.pid(), Duration::from_secs(3), Hooks::Auto);
    let attach = attach.arg("--all").arg("-o").arg(&file.0);
    let outcome = attach.run().expect(FAILED);
    assert!(outcome.stderr.contains("ends too early: it cannot be written"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("target: restored"), "{}", outcome.stderr);
    let recording = file.open();
    assert!(!recording.is_final() && recording.damage().is_none(), "{:?}", recording.damage());
    assert!(recording.ledger(None).is_sound());
    fixture.finish();
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let fixture = launch.start();
    let file = Recorded::new();
    fs::write(&file.0, "precious").expect("a temporary file");
    let attach = Heapattach::attach(fixture.pid(), Duration::from_millis(50), Hooks::Auto);
    let outcome = attach.arg("-o").arg(&file.0).run().expect(FAILED);
    assert!(outcome.stderr.contains("is there already"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("target: untouched"), "{}", outcome.stderr);
    assert_eq!(fs::read(&file.0).expect("it is still there"), b"precious");
    fixture.finish();
}

#[test]
fn a_session_leaves_a_file_named_after_the_process_unless_it_prints_json() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let fixture = launch.start();
    let folder = std::env::temp_dir().join(format!("heapattach-default-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let pid = fixture.pid().to_string();
    let attach = ["-p", &pid, "--duration", "50ms"];
    for more in [&["--json"][..], &["--no-record"], &[], &[]] {
        Heapattach::new([&attach, more].concat()).folder(&folder).run().expect(0);
    }
    Heapattach::new(["run", "--", "true"]).folder(&folder).run().expect(0);
    let entries = fs::read_dir(&folder).expect("it is there").filter_map(Result::ok);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort_by_key(String::len);
    let what = format!("{names:?}");
    assert_eq!(names.len(), 3, "{what}");
    assert!(names.iter().any(|name| name.ends_with(&format!(".{pid}.heapattach"))), "{what}");
    assert!(names.iter().any(|name| name.ends_with(&format!(".{pid}.2.heapattach"))), "{what}");
    assert!(names.iter().any(|name| name.starts_with("true.")), "{what}");
    for name in &names {
        assert!(Recording::open(&folder.join(name)).is_ok_and(|file| file.is_final()), "{name}");
    }
    let _ = fs::remove_dir_all(&folder);
    fixture.finish();
}

#[test]
fn a_recording_is_its_owners_and_can_leave_out_names_and_command() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.arg("secret-token").start();
    let file = Recorded::new();
    let attach = Heapattach::attach(fixture.pid(), Duration::from_millis(300), Hooks::Auto);
    let attach = attach.arg("--all").arg("--redact").arg("--no-symbols").arg("-o").arg(&file.0);
    attach.run().expect(0);
    fixture.advance(1);
    let mode = fs::metadata(&file.0).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ledger = file.ledger();
    assert_eq!(ledger.about.command, "");
    let cause = ledger.rows.first().and_then(|row| ledger.cause(row.stack));
    assert!(cause.is_some_and(|call| call.function.is_named), "the files are here: {cause:?}");
    fixture.finish();
}

#[test]
fn a_signal_marks_a_moment_and_so_does_growth() {
    let Some(launch) = Launch::new("truth.c") else { return };
    let mut fixture = launch.arg("2").arg("3000").arg(seed().to_string()).start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0).arg("--all");
    let command = command.arg("--dump-on-growth").arg("1KiB").arg("--dump-on-peak");
    let attached = Attached::start(command.arg("--snapshot-every").arg("300ms"), &mut fixture);
    kill(nix::unistd::Pid::from_raw(attached.pid()), Signal::SIGUSR1).expect("it lives");
    fixture.step(ROUND, 0);
    let marks = || {
        let marks = Recording::open(&file.0).ok()?.marks().to_vec();
        let has = |word: &str| marks.iter().any(|mark| mark.why.contains(word));
        ["SIGUSR1", "grown", "ever before", "time"].iter().all(|word| has(word)).then_some(marks)
    };
    let marks = poll(PATIENCE, marks);
    let running = attached.into_command();
    let talk = running.talk();
    running.signal(Signal::SIGINT);
    running.wait().expect(INTERRUPTED);
    let marks = marks.unwrap_or_else(|| panic!("{:?}\n{talk}", file.open().marks()));
    assert!(marks.is_sorted_by_key(|mark| mark.at_ms), "{marks:?}");
    assert!(talk.contains("marked ") && talk.contains("by SIGUSR1"), "{talk}");
    fixture.finish();
}
