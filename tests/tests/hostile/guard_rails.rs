//! When heapattach leaves a target alone by itself, and how it helps itself where the target is
//! short of something.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    deadline::{PATIENCE, poll, wait_until},
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

fn a_target_without_a_free_descriptor(hooks: Hooks) {
    let Some(launch) = Launch::new("starved.c") else { return };
    let mut fixture = launch.start();
    // What the first call of a thread maps is there before we look.
    fixture.advance(10);
    let before = Before::of(&mut fixture);
    fixture.pause();
    let mallocs = |fixture: &Fixture| fixture.page().get(Word::Malloc);
    let attached = Attached::to(&mut fixture, hooks);
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
fn a_target_without_a_free_descriptor_is_counted_all_the_same() {
    a_target_without_a_free_descriptor(Hooks::Auto);
}

#[test]
fn and_so_it_is_through_slots() {
    a_target_without_a_free_descriptor(Hooks::Slots);
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
    let outcome = Heapattach::attach(fixture.pid(), Duration::from_secs(60), Hooks::Auto)
        .arg("--max-overhead")
        .arg("0.0001")
        .run()
        .expect(0);
    assert!(outcome.stdout.contains("of the target's CPU time"), "{}", outcome.stdout);
    fixture.assert_well();
    fixture.finish();
}

/// A memory cgroup of ours, with a program in it that holds some; both end with the test.
struct Cgroup {
    folder: PathBuf,
    names: [&'static str; 2],
    holder: Option<Child>,
}

/// What the program holds: so much that 1 % of it is room for everything else in the group, which
/// would otherwise be killed by the kernel when it touches a new page.
const HELD: usize = 96 << 20;

impl Cgroup {
    fn new() -> Option<Self> {
        let roots = [
            ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"]),
            ("/sys/fs/cgroup", ["memory.max", "memory.current"]),
        ];
        roots.into_iter().find_map(|(root, names)| {
            let name = format!("heapattach-test-{}", std::process::id());
            let folder = PathBuf::from(root).join(name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, names, holder: None };
            group.folder.join(names[0]).exists().then_some(group)
        })
    }

    fn take(&self, pid: i32) -> Option<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).ok()
    }

    /// Starts a program in it that keeps in memory all that it reads.
    fn fill(&mut self) -> Option<()> {
        let mut command = Command::new("tail");
        let holder = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()?;
        let holder = self.holder.insert(holder);
        let pid = i32::try_from(holder.id()).expect("a pid");
        let mut line = holder.stdin.take()?;
        self.take(pid)?;
        line.write_all(&vec![b'x'; HELD]).expect("tail reads");
        self.holder.as_mut()?.stdin = Some(line);
        wait_until("the group to be charged", PATIENCE, || self.used() >= HELD as u64);
        Some(())
    }

    fn used(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.names[1])).expect("our own group");
        text.trim().parse().expect("a number")
    }

    fn limit(&self, bytes: u64) {
        fs::write(self.folder.join(self.names[0]), bytes.to_string()).expect("our own group");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            let _ = holder.kill();
            let _ = holder.wait();
        }
        // The kernel needs a moment to notice that the last process is gone.
        poll(PATIENCE, || fs::remove_dir(&self.folder).ok());
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
    // Made first, to go last: only an empty group can be removed.
    let group = Cgroup::new().and_then(|mut group| group.fill().map(|()| group));
    let Some(group) = group else {
        return skip("no memory cgroup can be made here", "run as root, with a writable cgroup");
    };
    let Some(mut fixture) = steady() else { return };
    group.take(fixture.pid()).expect("our own group");
    let before = Before::of(&mut fixture);
    // The kernel may find something to take away from a group that comes to its limit.
    let turns = std::iter::repeat_with(|| {
        let limit = group.used() + group.used() / 100;
        group.limit(limit);
        let outcome = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).run();
        (outcome, group.used() * 100 >= limit * 98)
    });
    let (outcome, _) = turns.take(10).find(|(_, is_full)| *is_full).expect("a full group");
    let talk = outcome.expect(REFUSED).stderr;
    assert!(talk.contains("cgroup uses") && talk.contains("untouched"), "{talk}");
    before.assert_equal(&mut fixture, "after a refusal");
    group.limit(8 * group.used());
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    fixture.advance(1000);
    assert!(attached.end().calls() > 0, "nothing counted once there was room");
    fixture.finish();
}
