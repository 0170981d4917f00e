//! Go programs that keep no memory profile: it is switched on for a session, counts exactly, and is off afterwards,
//! whichever process is killed.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use heapattach_tests::{
    command::{Heapattach, Running},
    deadline::{PATIENCE, poll, wait_until},
    hazard::cycles,
    sample::points,
    seed::{Random, seed},
    toolchain::{go, go_by, go_releases, go_with_c},
};
use nix::sys::signal::Signal;
use serde_json::Value;

const INTERRUPTED: i32 = 130;
const UNSUPPORTED: i32 = 4;
const RUN_FAILED: i32 = 125;

struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
        let orders = child.stdin.take().expect("its input");
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        let mut this = Self { child, orders, answers };
        assert_eq!(this.answer(), "ready 0");
        this
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// Keeps so many blocks; its rate.
    fn keep(&mut self, count: u64) -> u64 {
        writeln!(self.orders, "{count}").expect("it reads");
        let answer = self.answer();
        answer.strip_prefix("done ").and_then(|rate| rate.parse().ok()).expect("a rate")
    }

    fn rate(&mut self) -> u64 {
        self.keep(0)
    }

    fn attach(&self, more: &[&str]) -> Heapattach {
        let args = ["-p", &self.pid().to_string(), "--json", "--no-record"];
        Heapattach::new(args.iter().chain(more)).target(self.pid())
    }

    /// A session that reads.
    fn session(&self, more: &[&str]) -> Running {
        let mut command = self.attach(more).start();
        wait_until("it reads", PATIENCE, || {
            assert!(command.is_running(), "{}", command.talk());
            command.talk().contains("is on until the end")
        });
        command
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Option<PathBuf> {
    Some(go_by(&go_releases().pop()?, "unprofiled.go", &[]))
}

/// Blocks and bytes that a function keeps, as the report has them.
fn kept(report: &Value, function: &str) -> [u64; 2] {
    let sites = report["heap"]["sites"].as_array().expect("sites").iter();
    let own = sites.filter(|site| {
        let frames = site["frames"].as_array().expect("frames");
        frames.iter().any(|frame| frame["function"] == function)
    });
    own.fold([0; 2], |[blocks, bytes], site| {
        let number = |what: &str| site["live"][what]["value"].as_f64().expect("a number");
        // What is exact has no fraction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = |what: &str| number(what) as u64;
        [blocks + whole("blocks"), bytes + whole("bytes")]
    })
}

#[test]
fn every_block_is_counted_exactly_once_it_is_on_and_it_is_off_afterwards() {
    for compiler in &go_releases() {
        for flags in [&[][..], &["-ldflags=-s -w"], &["-buildmode=pie"]] {
            let mut target = Program::start(&go_by(compiler, "unprofiled.go", flags));
            target.keep(5000);
            let session = target.session(&["--all"]);
            assert_eq!(target.keep(100_000), 1, "the rate of the session");
            session.signal(Signal::SIGINT);
            let outcome = session.wait().expect(INTERRUPTED);
            let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
            let name = format!("{} {flags:?}", compiler.0);
            assert_eq!(report["target"], "restored", "{name}");
            // The runtime asks for a block of its own now and then while the function runs: for a wait, say.
            let [blocks, bytes] = kept(&report, "main.keep");
            let own = blocks.checked_sub(100_000).filter(|own| *own < 10);
            let own = own.unwrap_or_else(|| panic!("{name}: {blocks} blocks"));
            let more = bytes.wrapping_sub(6_400_000);
            assert!(own * 8 <= more && more <= own * 512, "{name}: {blocks} blocks, {bytes} B");
            assert!(outcome.stdout.contains("older than the attach"), "{name}");
            // The runtime of go1.27 samples one block before it switches itself off.
            assert!(!outcome.stdout.contains("runtime.schedinit"), "{name}: {}", outcome.stdout);
            assert_eq!(target.rate(), 0, "{name}");
            Heapattach::detach(target.pid()).run().expect(0);
        }
    }
}

#[test]
fn what_was_counted_before_is_told_at_once_and_of_a_program_that_is_not_go_nothing_is() {
    let Some(program) = go("keeps.go") else { return };
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("a program");
    let pid = child.id().cast_signed();
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("ready"))).expect("ready").ok();
    let at_once = ["-p", &pid.to_string(), "--duration", "0", "--json", "--no-record"];
    let outcome = Heapattach::new(at_once).target(pid).run().expect(0);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert!(kept(&report, "main.keep")[1] > 0 && report["target"] == "untouched", "{report:#}");
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
    let mut sleep = Command::new("sleep").arg("1000").spawn().expect("a program");
    let pid = sleep.id().to_string();
    let refused = Heapattach::new(["-p", &pid, "--duration", "0"]).run().expect(UNSUPPORTED);
    assert!(refused.stderr.contains("need at least 1ms"), "{}", refused.stderr);
    sleep.kill().expect("it runs");
    sleep.wait().expect("it is ours");
}

#[test]
fn a_program_without_c_that_is_to_be_checked_is_named_with_what_helps() {
    let Some(program) = program() else { return };
    let name = program.display().to_string();
    let refused = Heapattach::new(["check", "--"]).arg(&*name).run();
    let told =
        ["the program is go1.", "no leaks to find", "heapattach -p PID", "goroutines that wait"];
    for told in told {
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    assert_eq!(refused.code(), Some(RUN_FAILED));
    // One that runs is not touched.
    let mut target = Program::start(&program);
    let pid = target.pid().to_string();
    let refused = Heapattach::new(["check", "-p", &pid]).target(target.pid()).run();
    assert!(refused.stderr.contains("no leaks to find"), "{}", refused.stderr);
    assert!(refused.stderr.contains("(target: untouched)"), "{}", refused.stderr);
    assert_eq!((refused.code(), target.rate()), (Some(UNSUPPORTED), 0));
}

#[test]
fn a_program_that_calls_c_has_both_of_its_heaps_told() {
    let Some(program) = go_with_c("both.go") else { return };
    let mut target = Program::start(&program);
    let mut command = target.attach(&["--all"]).start();
    wait_until("it is attached", PATIENCE, || {
        assert!(command.is_running(), "{}", command.talk());
        command.talk().contains("attached to")
    });
    assert_eq!(target.keep(10_000), 1, "the rate of the session");
    command.signal(Signal::SIGINT);
    let outcome = command.wait().expect(INTERRUPTED);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&report["target"], target.rate()), (&"restored".into(), 0));
    assert_eq!(kept(&report, "keep_in_c"), [1000, 48_000]);
    let go = &report["processes"][0];
    assert!(go["heap_of"].as_str().is_some_and(|name| name.starts_with("go1.")), "{go:#}");
    let [blocks, bytes] = kept(go, "main.keep");
    assert!((10_000..10_010).contains(&blocks) && bytes >= 640_000, "{blocks} {bytes}");
    assert_eq!(kept(&report, "main.keep"), [0, 0], "each block once");
}

#[test]
fn samples_of_a_profile_that_was_off_tell_what_came_since() {
    let Some(program) = program() else { return };
    let mut target = Program::start(&program);
    let session = target.session(&["--every", "16KiB"]);
    assert_eq!(target.keep(200_000), 16 << 10);
    session.signal(Signal::SIGINT);
    let report: Value =
        serde_json::from_str(&session.wait().expect(INTERRUPTED).stdout).expect("JSON");
    let [_, bytes] = kept(&report, "main.keep");
    // 12.8 MB are 781 samples: six standard deviations.
    assert!(bytes.abs_diff(12_800_000) < 2_800_000, "{bytes}");
    assert_eq!(target.rate(), 0);
}

#[test]
fn it_is_off_again_when_the_command_is_killed_at_any_call() {
    let Some(program) = program() else { return };
    let mut target = Program::start(&program);
    let calls = target.attach(&["--duration", "100ms"]).fault("trace").run().expect(0).calls();
    assert!(calls.iter().any(|call| call == "note") && calls.len() >= 3, "{calls:?}");
    for number in points(calls.len() as u64, 40, &mut Random::new(seed())) {
        target.attach(&["--duration", "100ms"]).fault(&format!("killfront:{number}")).run();
        let is_off = poll(PATIENCE, || (target.rate() == 0).then_some(()));
        assert!(is_off.is_some(), "killed at call {number} of {calls:?}");
    }
}

#[test]
fn what_a_killed_session_left_on_is_named_and_switched_off() {
    let Some(program) = program() else { return };
    let mut target = Program::start(&program);
    let calls = target.attach(&["--duration", "100ms"]).fault("trace").run().expect(0).calls();
    for number in points(calls.len() as u64, 40, &mut Random::new(seed())) {
        target.attach(&["--duration", "100ms"]).fault(&format!("kill:{number}")).run();
        let status = Heapattach::new(["status"]).run().expect(0).stdout;
        let is_on = target.rate() != 0;
        let line = format!("left over; clean up with: heapattach detach -p {}", target.pid());
        assert!(!is_on || status.contains(&line), "killed at call {number} of {calls:?}: {status}");
        Heapattach::detach(target.pid()).run().expect(0);
        assert_eq!(target.rate(), 0, "killed at call {number} of {calls:?}");
        let status = Heapattach::new(["status"]).run().expect(0).stdout;
        assert!(!status.contains(&line), "{status}");
    }
}

#[test]
fn a_session_after_a_killed_one_takes_its_rate_for_what_it_is() {
    let Some(program) = program() else { return };
    for _ in 0..cycles() {
        let mut target = Program::start(&program);
        let session = target.session(&["--every", "4KiB"]);
        let tracer = heapattach_tests::real::children(session.pid());
        assert_eq!(target.rate(), 4096);
        for pid in tracer {
            let pid = nix::unistd::Pid::from_raw(pid);
            nix::sys::signal::kill(pid, Signal::SIGKILL).expect("the tracing process");
        }
        session.wait();
        assert_eq!(target.rate(), 4096, "it was killed");
        let session = target.session(&["--every", "8KiB"]);
        assert_eq!(target.rate(), 8192);
        session.signal(Signal::SIGINT);
        session.wait().expect(INTERRUPTED);
        assert_eq!(target.rate(), 0);
    }
}

/// `cargo test -p heapattach-tests --test truth -- --ignored a_hundred_killed`: some minutes.
#[test]
#[ignore = "a hundred sessions are killed: minutes"]
fn a_hundred_killed_sessions_leave_the_rate_as_it_was() {
    let Some(program) = program() else { return };
    let mut target = Program::start(&program);
    let mut random = Random::new(seed());
    let mut was_on = 0;
    for number in 0..100 {
        let session = target.attach(&["--every", "4KiB"]).start();
        // Any instant: before it was switched on, while it is, or as late as when it reads.
        std::thread::sleep(std::time::Duration::from_millis(random.between(0, 400)));
        let has_tracer_killed = number % 2 == 1;
        if has_tracer_killed {
            for pid in heapattach_tests::real::children(session.pid()) {
                let pid = nix::unistd::Pid::from_raw(pid);
                // It may have ended.
                let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
            }
        }
        was_on += u32::from(target.rate() != 0);
        session.signal(Signal::SIGKILL);
        session.wait();
        if has_tracer_killed {
            // A tracing process that had only just begun is not killed, and ends by itself.
            let detach = || Heapattach::detach(target.pid()).run().code();
            let is_done = poll(PATIENCE, || (detach() == Some(0)).then_some(()));
            assert!(is_done.is_some(), "session {number}");
        }
        let is_off = poll(PATIENCE, || (target.rate() == 0).then_some(()));
        assert!(is_off.is_some(), "session {number}");
    }
    println!("100 of 100 restored; {was_on} were on when they were killed");
    assert!(was_on > 10, "{was_on} were on when they were killed");
}
