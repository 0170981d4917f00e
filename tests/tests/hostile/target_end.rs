//! Targets that end, crash or become another program in mid-session.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    time::Duration,
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, Outcome},
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    page::Word,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const INTERRUPTED: i32 = 130;
const TARGET_DIED: i32 = 5;
const TURNS: usize = 20;
const WINDOW: Duration = Duration::from_millis(5);

fn ends_as_told(end: impl Fn(&heapattach_tests::fixture::Fixture)) -> Option<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for _ in 0..TURNS {
        let mut fixture = Launch::new("steady.c")?.start();
        let command = Attached::to(&mut fixture, Hooks::Auto).into_command();
        fixture.advance(10);
        end(&fixture);
        outcomes.push(command.wait());
    }
    Some(outcomes)
}

#[test]
fn a_target_that_exits_is_reported_as_ended_with_all_counts() {
    let ended = ends_as_told(|fixture| fixture.page().set(Word::Stop, 1));
    for (turn, outcome) in ended.into_iter().flatten().enumerate() {
        let report = outcome.expect(TARGET_DIED).report();
        assert_eq!(report.outcome, "exited", "turn {turn}: {report:?}");
        // Not all kernels tell it to others than the parent.
        let code = report.exit.as_ref().and_then(|exit| exit.code);
        assert!(code.is_none_or(|code| code == 0), "turn {turn}: {report:?}");
        assert!(report.calls() > 0, "turn {turn}: {report:?}");
    }
}

#[test]
fn a_target_that_is_killed_is_reported_with_its_signal() {
    let ended = ends_as_told(|fixture| {
        kill(Pid::from_raw(fixture.pid()), Signal::SIGKILL).expect("a child of ours");
    });
    for (turn, outcome) in ended.into_iter().flatten().enumerate() {
        let report = outcome.expect(TARGET_DIED).report();
        assert_eq!(report.outcome, "exited", "turn {turn}: {report:?}");
        let signal = report.exit.as_ref().and_then(|exit| exit.signal);
        assert!(signal.is_none_or(|it| it == Signal::SIGKILL as i32), "turn {turn}: {report:?}");
    }
}

/// A shell that becomes another program when it reads a line; ended with the test.
struct Shell(Child);

impl Shell {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; exec sleep 1000"]).stdin(Stdio::piped());
        Self(command.spawn().expect("there is a shell"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a pid")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_target_that_execs_is_attached_to_again() {
    for turn in 0..TURNS {
        let mut shell = Shell::start();
        let pid = shell.pid();
        // It has a libc before it reads its input; a shell younger than that is another test's matter.
        let call = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        wait_until("the shell to read", PATIENCE, || call().starts_with("0 0x0 "));
        let mut command = Attached::command(pid, Hooks::Auto).start();
        wait_until("the attach", PATIENCE, || {
            Attached::is_told(&command.talk()) || !command.is_running()
        });
        let stdin = shell.0.stdin.as_mut().expect("piped");
        stdin.write_all(b"go\n").expect("the shell reads");
        let attached = |talk: &str| talk.matches("attached to").count();
        wait_until("the attach to the new program", PATIENCE, || {
            attached(&command.talk()) == 2 || !command.is_running()
        });
        command.signal(Signal::SIGINT);
        let report = command.wait().expect(INTERRUPTED).report();
        let [earlier] = &report.processes[..] else { panic!("turn {turn}: {report:?}") };
        assert_eq!(earlier.outcome, "execed", "turn {turn}: {report:?}");
        assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"), "turn {turn}");
        assert!(report.left.is_empty(), "turn {turn}: {:?}", report.left);
        assert!(matches!(shell.0.try_wait(), Ok(None)), "turn {turn}: the new program died");
    }
}

#[test]
fn a_process_that_has_just_begun_can_be_attached_to() {
    for turn in 0..TURNS {
        let shell = Shell::start();
        let delay = Duration::from_micros(150 * turn as u64);
        std::thread::sleep(delay);
        // At once: it is still the test, or its loader is at work, or it waits for a line.
        let outcome = Heapattach::attach(shell.pid(), WINDOW, Hooks::Auto).run();
        assert_eq!(outcome.code(), Some(0), "{delay:?} after its start: {}", outcome.stderr);
    }
}
