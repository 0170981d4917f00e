//! What cannot be attached to is left alone, and the user told why and what to do.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, Outcome, binary},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    skip::skip,
    trace::Before,
};
use nix::{
    sys::{
        ptrace,
        wait::{WaitPidFlag, waitid},
    },
    unistd::Pid,
};

const WINDOW: Duration = Duration::from_millis(10);
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const UNSUPPORTED: i32 = 4;
const NOBODY: u32 = 65534;

/// A child ended with the test.
struct Victim(Child);

impl Victim {
    fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("a program that was there a moment ago"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a pid")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn steady() -> Option<Fixture> {
    Some(Launch::new("steady.c")?.start())
}

/// Panics unless `outcome` is a refusal that says all of `words` and that nothing was touched.
fn assert_refused(outcome: Outcome, code: i32, words: &[&str]) {
    let outcome = outcome.expect(code);
    let report = outcome.report();
    assert_eq!((&*report.outcome, &*report.target), ("refused", "untouched"), "{report:?}");
    let error = report.error.unwrap_or_default();
    for word in words {
        let said = error.to_lowercase().contains(&word.to_lowercase());
        assert!(said, "the refusal does not say {word:?}: {error}");
    }
    assert!(outcome.stderr.contains("untouched"), "not told: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

fn attach(pid: i32) -> Outcome {
    Heapattach::attach(pid, WINDOW, Hooks::Auto).run()
}

#[test]
fn refuses_a_process_that_is_not_there() {
    let mut victim = Victim::spawn(&mut Command::new("true"));
    victim.0.wait().expect("a child of ours");
    let pid = victim.pid();
    assert_refused(attach(pid), REFUSED, &[&pid.to_string(), "no process"]);
}

#[test]
fn refuses_a_zombie() {
    let victim = Victim::spawn(&mut Command::new("true"));
    let id = nix::sys::wait::Id::Pid(Pid::from_raw(victim.pid()));
    waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("a child of ours");
    assert_refused(attach(victim.pid()), REFUSED, &[&victim.pid().to_string(), "zombie"]);
}

#[test]
fn refuses_a_kernel_thread() {
    let is_there = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    if !is_there {
        return skip("process 2 is no kernel thread", "run outside a pid namespace");
    }
    assert_refused(attach(2), UNSUPPORTED, &["kernel thread"]);
}

#[test]
fn refuses_itself() {
    let script = "exec \"$0\" -p $$ --duration 10ms --json";
    let output = Command::new("sh").arg("-c").arg(script).arg(binary()).output();
    let output = output.expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    assert!(said.contains("itself") && said.contains("untouched"), "{said}");
}

#[test]
fn refuses_a_process_with_another_tracer_and_names_it() {
    let Some(mut fixture) = steady() else { return };
    let pid = Pid::from_raw(fixture.pid());
    ptrace::seize(pid, ptrace::Options::empty()).expect("a child of ours");
    // Each thread traces for itself.
    let own = nix::unistd::gettid().to_string();
    let name = fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    assert_refused(attach(fixture.pid()), REFUSED, &["traced", &own, name.trim()]);
    fixture.assert_well();
    fixture.advance(1);
    // Detaching asks for a stop first.
    ptrace::interrupt(pid).expect("traced by us");
    nix::sys::wait::waitpid(pid, None).expect("traced by us");
    ptrace::detach(pid, None).expect("stopped and traced by us");
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).run().expect(0);
    fixture.finish();
}

#[test]
fn refuses_a_32_bit_process() {
    let can = Command::new("cc").args(["-m32", "-E", "-x", "c", "/dev/null"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skip("no compiler for 32 bits", "apt-get install gcc-multilib");
    }
    let Some(program) = Source::new("tiny32.c").build() else { return };
    let victim = Victim::spawn(&mut Command::new(program));
    assert_refused(attach(victim.pid()), UNSUPPORTED, &["32-bit", "64-bit"]);
}

#[test]
fn refuses_while_another_heapattach_is_there() {
    let Some(mut fixture) = steady() else { return };
    let before = Before::of(&mut fixture);
    let first = Attached::to(&mut fixture, Hooks::Auto);
    assert_refused(attach(fixture.pid()), REFUSED, &["another heapattach"]);
    assert!(first.end().calls() > 0, "the first session counted nothing");
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).run().expect(0);
    before.assert_equal(&mut fixture, "after two sessions, one of them refused");
    fixture.finish();
}

#[test]
fn refuses_a_thread_and_names_its_process() {
    let Some(fixture) = steady() else { return };
    let pid = fixture.pid();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a living process");
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let tid = tids.into_iter().find(|&tid| tid != pid).expect("more threads than one");
    assert_refused(attach(tid), REFUSED, &["thread", &format!("-p {pid}")]);
    fixture.finish();
}

#[test]
fn refuses_what_the_user_may_not_trace() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can become another user", "run the tests as root");
    }
    let Some(mut fixture) = steady() else { return };
    let before = Before::of(&mut fixture);
    let (pid, duration) = (fixture.pid().to_string(), "10ms");
    let output = as_nobody(&["-p", &pid, "--duration", duration, "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    // Value, need and cure.
    for word in ["65534", "need", "sudo", "untouched"] {
        assert!(said.contains(word), "the refusal does not say {word:?}: {said}");
    }
    before.assert_equal(&mut fixture, "after a refusal");
    fixture.finish();
}

/// Runs the command as a user without rights.
fn as_nobody(args: &[&str]) -> Output {
    static TURN: AtomicU32 = AtomicU32::new(0);
    let turn = TURN.fetch_add(1, Relaxed);
    // A copy where all users may read: the build folder may be root's own.
    let name = format!("heapattach-nobody-{}-{turn}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    let copy = folder.join("heapattach");
    // By another process: a descriptor open for writing, inherited by what a test beside us
    // forks, would make the copy too busy to be run.
    let copied = Command::new("cp").arg(binary()).arg(&copy).status().expect("cp");
    assert!(copied.success(), "no room for a copy");
    let mut command = Command::new(&copy);
    command.args(args).uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
    let output = command.output();
    let _ = fs::remove_dir_all(&folder);
    output.expect("a copy of the command")
}

#[test]
fn refuses_a_filtered_process_that_our_calls_might_kill() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can become another user", "run the tests as root");
    }
    // Becomes the same user without rights, then forbids itself nearly every call.
    let Some(launch) = Launch::new("confined.c") else { return };
    let Some(mut fixture) = launch.arg("user-seccomp").start_if_allowed() else {
        return skip("seccomp is not allowed here", "run as root");
    };
    let output = as_nobody(&["-p", &fixture.pid().to_string(), "--duration", "10ms", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    for word in ["seccomp", "cap_sys_admin", "--force", "untouched"] {
        assert!(said.contains(word), "the refusal does not say {word:?}: {said}");
    }
    fixture.assert_well();
    fixture.advance(1);
    fixture.finish();
}

#[test]
fn refuses_a_static_program_without_symbols_or_hooks_it() {
    let source = Source::new("steady.c").flag("-static").flag("-s");
    let Some(launch) = Launch::of(&source) else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture);
    let outcome = attach(fixture.pid());
    match outcome.code() {
        Some(0) => assert!(outcome.report().calls() > 0, "hooked, but nothing counted"),
        _ => assert_refused(outcome, UNSUPPORTED, &["static"]),
    }
    let doctor = Heapattach::new(["doctor", "-p", &fixture.pid().to_string()]).run();
    assert_eq!(doctor.code(), attach(fixture.pid()).code(), "{}", doctor.stdout);
    before.assert_equal(&mut fixture, "after a refusal");
    fixture.finish();
}

#[test]
fn refuses_a_thread_that_has_its_system_calls_given_back() {
    let Some(launch) = Launch::new("user_dispatch.c") else { return };
    let Some(mut fixture) = launch.start_if_allowed() else {
        return skip("no syscall user dispatch here", "Linux 5.11 or later");
    };
    fixture.advance(10);
    let before = Before::of(&mut fixture).loose();
    for _ in 0..10 {
        let outcome = attach(fixture.pid()).expect(UNSUPPORTED);
        let report = outcome.report();
        assert_eq!((&*report.outcome, &*report.target), ("refused", "restored"), "{report:?}");
        assert!(outcome.stderr.contains("returned to the program"), "{}", outcome.stderr);
        fixture.advance(10);
    }
    before.assert_equal(&mut fixture, "after refusals");
    fixture.finish();
}

#[test]
fn refuses_the_kernel_of_a_sandbox() {
    let folder = std::env::temp_dir().join(format!("heapattach-sandbox-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    let program = folder.join("runsc-sandbox");
    // By another process, as for the copy of the command above.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status().expect("cp");
    assert!(copied.success(), "no room for a copy");
    let victim = Victim::spawn(Command::new(&program).arg("1000"));
    let is_named = || fs::read_to_string(format!("/proc/{}/comm", victim.pid()));
    wait_until("the name", PATIENCE, || is_named().is_ok_and(|name| name.starts_with("runsc")));
    assert_refused(attach(victim.pid()), UNSUPPORTED, &["gVisor", "ordinary container"]);
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_refusal_is_foretold_by_the_doctor() {
    let Some(fixture) = steady() else { return };
    let mut zombie = Victim::spawn(&mut Command::new("true"));
    wait_until("the child's end", PATIENCE, || is_zombie(zombie.pid()));
    for (pid, may) in [(fixture.pid(), true), (zombie.pid(), false), (2, false)] {
        let pid = pid.to_string();
        let doctor = Heapattach::new(["doctor", "-p", &pid]).run();
        let attach = Heapattach::new(["-p", &pid, "--duration", "10ms", "--no-record"]).run();
        assert_eq!(doctor.code(), attach.code(), "{}\n{}", doctor.stdout, attach.stderr);
        assert_eq!(attach.code() == Some(0), may, "{}", attach.stderr);
    }
    let _ = zombie.0.wait();
    fixture.finish();
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn absurd_arguments_are_usage_errors() {
    let cases: &[&[&str]] = &[
        &["-p", "0"],
        &["-p", "-1"],
        &["-p", "99999999999"],
        &["-p", "4294967297"],
        &["-p", ""],
        &["-p", "1 2"],
        &["-p", "0x10"],
        &["-p", "\u{0661}"],
        &["-p", "1", "--duration", "-1s"],
        &["-p", "1", "--duration", "1e99y"],
        &["-p", "1", "--duration", "99999999999999999999s"],
        &["-p", "1", "--duration", "NaN"],
        &["-p", "1", "--duration", "inf"],
        &["-p", "1", "--duration", ""],
        &["-p", "1", "--duration", "5 parsecs"],
        &["-p", "1", "--hooks", "everything"],
        &["-p"],
        &[],
        &["detach"],
        &["detach", "-p", "-5"],
        &["doctor", "-p", "never"],
        &["status", "--no-such-option"],
        &["no-such-command"],
        &["-p", "1", "-p", "2"],
    ];
    for arguments in cases {
        let outcome = Heapattach::new(*arguments).limit(Duration::from_secs(10)).run();
        assert_eq!(outcome.code(), Some(USAGE), "{arguments:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.is_empty(), "{arguments:?} says nothing");
        assert!(!outcome.stderr.contains("panicked"), "{arguments:?}: {}", outcome.stderr);
    }
}

#[test]
fn run_reports_commands_that_cannot_be_run_as_env_does() {
    let missing = Heapattach::new(["run", "--", "/no/such/program"]).run();
    assert_eq!(missing.code(), Some(127), "{}", missing.stderr);
    let folder = Heapattach::new(["run", "--", "/tmp"]).run();
    assert_eq!(folder.code(), Some(126), "{}", folder.stderr);
    let nothing = Heapattach::new(["run"]).run();
    assert!([USAGE, 125].map(Some).contains(&nothing.code()), "{}", nothing.stderr);
    let text = std::env::temp_dir().join(format!("heapattach-text-{}", std::process::id()));
    fs::write(&text, "neither script nor program").expect("room for a small file");
    let unreadable = Heapattach::new(["run", "--"]).arg(&text).run();
    let _ = fs::remove_file(&text);
    assert_eq!(unreadable.code(), Some(126), "{}", unreadable.stderr);
}

#[test]
fn detach_of_an_untouched_process_finds_nothing_to_do() {
    let Some(mut fixture) = steady() else { return };
    let before = Before::of(&mut fixture);
    Heapattach::detach(fixture.pid()).run().expect(0);
    before.assert_equal(&mut fixture, "after a detach without an attach");
    fixture.finish();
}
