//! When heapattach leaves a target alone by itself, and how it helps itself where the target is
//! short of something.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
    page::Word,
    skip::skip,
    trace::Before,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const WINDOW: Duration = Duration::from_millis(50);
const REFUSED: i32 = 3;

fn steady() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

#[test]
fn a_target_without_a_free_descriptor_is_counted_all_the_same() {
    let Some(launch) = Launch::new("starved.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture);
    fixture.pause();
    let mallocs = |fixture: &Fixture| fixture.page().get(Word::Malloc);
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    let at_first = mallocs(&fixture);
    fixture.resume();
    fixture.advance(1000);
    fixture.pause();
    let made = mallocs(&fixture) - at_first;
    let report = attached.end();
    assert_eq!(report.calls_of("malloc"), made, "{report:#?}");
    before.assert_equal(&mut fixture, "a session without a descriptor");
    fixture.finish();
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    let Some(mut fixture) = steady() else { return };
    let outcome = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto)
        .arg("--max-memory")
        .arg("10KiB")
        .run()
        .expect(REFUSED);
    let error = outcome.report().error.unwrap_or_default();
    assert!(error.contains("--max-memory"), "{error}");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_session_that_costs_too_much_ends_by_itself() {
    let Some(mut fixture) = steady() else { return };
    let began = Instant::now();
    let outcome = Heapattach::attach(fixture.pid(), Duration::from_secs(60), Hooks::Auto)
        .arg("--max-overhead")
        .arg("0.0001")
        .run()
        .expect(0);
    assert!(began.elapsed() < Duration::from_secs(50), "it did not end by itself");
    assert!(outcome.stdout.contains("of the target's CPU time"), "{}", outcome.stdout);
    fixture.assert_well();
    fixture.finish();
}

/// A memory cgroup of ours, removed with the test.
struct Cgroup(PathBuf);

impl Cgroup {
    fn with_limit(pid: i32) -> Option<Self> {
        let roots = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ];
        for (root, limit, usage) in roots {
            let folder =
                PathBuf::from(root).join(format!("heapattach-test-{}", std::process::id()));
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self(folder);
            let own = |name: &str| group.0.join(name);
            if fs::write(own("cgroup.procs"), pid.to_string()).is_err() || !own(limit).exists() {
                continue;
            }
            // What it uses next, plus a little: full, but nobody is killed.
            let used = fs::read_to_string(own(usage)).ok()?.trim().parse::<u64>().ok()?;
            let limit_now = used.max(1 << 20) + (used >> 9) + 8192;
            if fs::write(own(limit), limit_now.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_counters_expire_when_nobody_beats() {
    let Some(mut fixture) = steady() else { return };
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    let tracer = child_of(attached.pid());
    kill(tracer, Signal::SIGSTOP).expect("our own child's child");
    // The hooks go on for 15 s without a beat; time itself is what is tested here.
    let expired = Instant::now() + Duration::from_secs(17);
    while Instant::now() < expired {
        fixture.advance(10);
    }
    kill(tracer, Signal::SIGCONT).expect("our own child's child");
    let command = attached.into_command();
    command.signal(Signal::SIGINT);
    let outcome = command.wait();
    assert!(outcome.stdout.contains("switched themselves off"), "{}", outcome.stdout);
    fixture.finish();
}

fn child_of(parent: i32) -> Pid {
    let stats = fs::read_dir("/proc").expect("proc").filter_map(Result::ok);
    let child = stats.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok()).find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{parent}"))
    });
    Pid::from_raw(child.expect("the tracing process"))
}

#[test]
fn a_target_whose_cgroup_is_nearly_full_is_left_alone() {
    let Some(mut fixture) = steady() else { return };
    let Some(group) = Cgroup::with_limit(fixture.pid()) else {
        skip("no memory cgroup can be made here", "run as root with a writable cgroup file system");
        return;
    };
    let outcome = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).run();
    let talk = outcome.stderr.clone();
    let told = talk.contains("cgroup uses");
    // A group that is roomy again may be attached to; then it must have been left as it was.
    assert!(told || outcome.code() == Some(0), "{talk}");
    fixture.assert_well();
    fixture.finish();
    drop(group);
}
