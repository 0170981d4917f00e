//! What it costs to record every call, and what a session costs in memory.

use std::time::Instant;

use serde::Serialize;

use super::{Rounds, Spread};
use crate::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
};

/// The step of `pair_cost.c` that frees what it has just got, and the one that keeps a thousand.
const STEPS: [u64; 2] = [1, 2];
const PAIRS: u64 = 2_000_000;

/// A session of one kind.
#[derive(Debug, Serialize)]
pub struct Recording {
    /// Which kind.
    pub session: &'static str,
    /// Processor time of a pair of malloc and free, less that without a session, in ns.
    pub pair_ns: Spread,
    /// Events recorded and read, in millions a second.
    pub million_events: Spread,
    /// Events that were dropped, of all sessions.
    pub lost: u64,
    /// Memory the target has in use, over that before, in KiB.
    pub target_kib: Spread,
    /// Address space the target has, over that before, in KiB.
    pub target_mapped_kib: Spread,
    /// The most memory the command and its tracing process had, in KiB.
    pub command_kib: Spread,
}

struct Kind {
    name: &'static str,
    options: &'static [&'static str],
    records_all: bool,
}

const KINDS: [Kind; 2] = [
    Kind { name: "every 512 KiB", options: &[], records_all: false },
    Kind { name: "--all", options: &["--all", "--on-full=wait"], records_all: true },
];

pub(super) fn measure(rounds: Rounds) -> Vec<Recording> {
    KINDS.iter().filter_map(|kind| of_kind(kind, rounds)).collect()
}

fn of_kind(kind: &Kind, rounds: Rounds) -> Option<Recording> {
    let mut fixture = Launch::new("pair_cost.c")?.start();
    let [mut over, mut rates, mut resident, mut mapped, mut command] = [const { Vec::new() }; 5];
    let mut lost = 0;
    for _ in 0..rounds.0 {
        let plain = STEPS.map(|step| ns_of(&mut fixture, step));
        let before = ["VmRSS", "VmSize"].map(|name| kib_of(fixture.pid(), name));
        let session =
            kind.options.iter().fold(
                Attached::command(fixture.pid(), Hooks::Auto),
                |command: Heapattach, option| command.arg(*option),
            );
        let session = Attached::start(session, &mut fixture);
        let began = Instant::now();
        let attached = STEPS.map(|step| ns_of(&mut fixture, step));
        let seconds = began.elapsed().as_secs_f64();
        let after = ["VmRSS", "VmSize"].map(|name| kib_of(fixture.pid(), name));
        let ours = [session.pid(), session.tracer().as_raw()].map(|pid| kib_of(pid, "VmHWM"));
        let report = session.end();
        lost += report.heap.lost.values().sum::<u64>();
        assert!(report.calls() >= PAIRS * 4, "{} calls", report.calls());
        over.extend(attached.iter().zip(&plain).map(|(with, without)| with - without));
        if kind.records_all {
            #[expect(clippy::cast_precision_loss, reason = "a few million")]
            rates.push(report.calls() as f64 / seconds / 1e6);
        }
        resident.push(after[0] - before[0]);
        mapped.push(after[1] - before[1]);
        command.push(ours.iter().sum());
    }
    fixture.finish();
    Some(Recording {
        session: kind.name,
        pair_ns: Spread::of(over),
        million_events: Spread::of(rates),
        lost,
        target_kib: Spread::of(resident),
        target_mapped_kib: Spread::of(mapped),
        command_kib: Spread::of(command),
    })
}

fn ns_of(fixture: &mut Fixture, step: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few billion ns")]
    let ns = fixture.step(step, PAIRS) as f64 / PAIRS as f64;
    ns
}

/// A line of a process's status.
fn kib_of(pid: i32, name: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a line of every status")
}
