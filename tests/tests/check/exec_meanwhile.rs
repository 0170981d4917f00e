//! A program of which a thread execs just while a check does something with another of its threads.

use std::{fs, path::Path};

use heapattach_tests::{
    command::Heapattach,
    compile::Source,
    deadline::{PATIENCE, poll, wait_until},
    hold::Hold,
};

const LEAKY: i32 = 23;
/// So often all calls are held, if no thread execed meanwhile.
const ROUNDS: usize = 5;

fn check_of_an_exec(program: &Path, fault: &str) -> Heapattach {
    Heapattach::new(["check", "--"]).arg(program).arg("become").arg("250").arg("1").fault(fault)
}

fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A thread stands, and is just about to be let go, when another one execs: the kernel wakes it up, it comes
/// to its end, and what lets it go lets it go from there, unseen. The exec waits for its end to be taken in.
#[test]
fn a_thread_that_is_let_go_just_when_another_one_execs_is_taken_in() {
    let Some(program) = Source::new("leaky_suite.c").build() else { return };
    let traced = check_of_an_exec(&program, "trace").run().expect(LEAKY);
    let mut calls = traced.calls_named("PTRACE_CONT");
    calls.reverse();
    let mut execed = 0;
    let calls = &calls[..calls.len().min(16)];
    // Which of them comes while a thread execs depends on how far the others are: not in every round one does.
    for (number, &call) in (0..).zip(calls.iter().cycle().take(calls.len() * ROUNDS)) {
        if number % calls.len() == 0 && execed > 0 {
            break;
        }
        let hold = Hold::at(&["call"]);
        let command = check_of_an_exec(&program, &format!("hold:{call}"));
        let mut running = hold.start(command);
        let held = poll(PATIENCE, || {
            let is_held = running.talk().contains("held at call");
            (is_held || !running.is_running()).then_some(is_held)
        });
        if held.expect("it neither ends nor comes there") {
            let talk = running.talk();
            let attached = talk.lines().find_map(|line| line.split_once("attached to "));
            let pid = attached.and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok());
            // It execs, or is itself the one that is to be let go.
            let is_waiting = || pid.and_then(state).is_none_or(|state| "DtZ".contains(state));
            wait_until("the exec", PATIENCE, is_waiting);
            execed += u32::from(pid.and_then(state) == Some('D'));
        }
        hold.let_go("call");
        let outcome = running.wait().expect(LEAKY);
        let said = outcome.stderr.contains("Direct leak of 250 byte(s) in 1 object(s)");
        assert!(said, "call {call}: {}", outcome.stderr);
    }
    println!("held at {execed} calls while another thread execed");
    assert!(execed > 0, "no thread was let go while another one execed");
}
