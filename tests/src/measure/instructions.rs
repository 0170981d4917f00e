//! The instructions of a pair of malloc and free, counted one by one.
//!
//! A profiler that simulates the processor cannot run a program that something attaches to; single
//! steps can: the session does not trace, so while it lasts the test may. Twice as many pairs less
//! as many is pairs alone.

use nix::{
    sys::{
        ptrace,
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};
use serde::Serialize;

use super::pairs::{Runner, runners};
use crate::page::Word;

const TIGHT: u64 = 1;
const PAIRS: u64 = 500;
/// More steps than any command takes: the program hangs.
const MOST: u64 = 100_000_000;

/// What a pair costs one way.
#[derive(Debug, Serialize)]
pub struct Instructions {
    /// How malloc and free are reached.
    pub way: &'static str,
    /// Instructions of a pair, the loop around it included.
    pub per_pair: f64,
    /// Over that of the wrapper.
    pub over_wrapper: f64,
}

pub(super) fn measure() -> Vec<Instructions> {
    let Some(mut runners) = runners() else { return Vec::new() };
    // Sessions look at all slots again shortly after the attach; let that be over.
    std::thread::sleep(std::time::Duration::from_millis(400));
    let counts = runners.each_mut().map(|runner| {
        // Once for what happens only the first time.
        runner.fixture.step(TIGHT, PAIRS);
        let few = steps(runner, PAIRS);
        let many = steps(runner, 3 * PAIRS);
        #[expect(clippy::cast_precision_loss, reason = "a few million steps")]
        let per_pair = many.saturating_sub(few) as f64 / (2 * PAIRS) as f64;
        (runner.way, per_pair)
    });
    for runner in runners {
        runner.end(5 * PAIRS);
    }
    let wrapper = counts[1].1;
    let told = counts.map(|(way, per_pair)| Instructions {
        way,
        per_pair,
        over_wrapper: per_pair - wrapper,
    });
    told.into()
}

/// Runs the step instruction by instruction, and says how many there were.
fn steps(runner: &mut Runner, pairs: u64) -> u64 {
    let pid = Pid::from_raw(runner.fixture.pid());
    ptrace::seize(pid, ptrace::Options::empty()).expect("a child of ours that nobody traces");
    ptrace::interrupt(pid).expect("traced by us");
    waitpid(pid, None).expect("traced by us");
    runner.fixture.begin_step(TIGHT, pairs);
    let mut steps = 0;
    while runner.fixture.page().get(Word::Done) == 0 {
        ptrace::step(pid, None).expect("stopped and traced by us");
        let status = waitpid(pid, None).expect("traced by us");
        let stopped = matches!(status, WaitStatus::Stopped(_, Signal::SIGTRAP));
        assert!(stopped && steps < MOST, "after {steps} steps: {status:?}");
        steps += 1;
    }
    ptrace::detach(pid, None).expect("stopped and traced by us");
    runner.fixture.end_step();
    steps
}
