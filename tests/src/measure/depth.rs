//! What it costs to record every allocation with its stack, by the shape of the stacks; and what a
//! peer's recording costs.

use std::time::Duration;

use serde::Serialize;

use super::{Rounds, Spread, preload::Preload};
use crate::{
    attached::Attached,
    command::Hooks,
    compile::fixture,
    fixture::{Fixture, Launch},
    real::python,
    skip::skip,
};

/// Frames above malloc, and how many of the innermost are others in each pair; in the order of the
/// steps of `depth_cost.c`.
const SHAPES: [(u32, u32); 7] = [(10, 0), (20, 0), (60, 0), (10, 2), (20, 6), (60, 6), (60, 30)];
/// Pairs of one measurement.
const PAIRS: u64 = 100_000;
/// The reader takes in what was recorded in one measurement.
const DRAIN: Duration = Duration::from_millis(150);
/// How often the Python program does its work in one measurement.
const REPEATS: u64 = 2;

/// What pairs from stacks of one shape cost.
#[derive(Debug, Serialize)]
pub struct DepthCost {
    /// Frames above malloc.
    pub frames: u32,
    /// The innermost of them that change.
    pub changing: u32,
    /// Processor time of a pair, in ns.
    pub plain_ns: Spread,
    /// What a session that records everything adds to it.
    pub added_ns: Spread,
    /// What the peer adds.
    pub peer_added_ns: Spread,
    /// How many times what the session adds that is.
    pub peer_ratio: Spread,
}

/// What a session takes in of two threads that do nothing but call malloc and free.
#[derive(Debug, Serialize)]
pub struct BusyRate {
    /// How the session was to deal with full rings.
    pub on_full: &'static str,
    /// Frames above malloc.
    pub frames: u32,
    /// Events of the two threads without a session, in millions a second.
    pub plain: Spread,
    /// With one that records them all.
    pub recorded: Spread,
    /// Of a thousand events, those that were dropped.
    pub lost_of_thousand: Spread,
}

/// What a program's work costs.
#[derive(Debug, Serialize)]
pub struct WorkCost {
    /// Which program.
    pub program: &'static str,
    /// Its processor time, in ms.
    pub plain_ms: Spread,
    /// With a session that records everything: so many times that.
    pub times: Spread,
    /// With the peer.
    pub peer_times: Spread,
}

/// The same program three ways; without the peer, two.
struct Ways {
    plain: Fixture,
    attached: (Fixture, Attached),
    peer: Option<(Fixture, Preload)>,
}

/// One measurement each way, in ns.
struct Turn {
    plain: f64,
    attached: f64,
    peer: Option<f64>,
}

impl Ways {
    /// After one step, in which a program may load what it needs.
    fn start(launch: impl Fn() -> Option<Launch>, step: u64) -> Option<Self> {
        let plain = launch()?.start();
        let mut watched = launch()?.start();
        watched.step(step, 1);
        let command = Attached::command(watched.pid(), Hooks::Auto);
        // Room for all records of a turn: what waiting for the reader costs is told elsewhere.
        let command = command.arg("--all").arg("--on-full=wait").arg("--ring=8MiB");
        let session = Attached::start(command, &mut watched);
        let peer = match Preload::new() {
            Some(preload) => Some((preload.under(launch()?).start(), preload)),
            None => None,
        };
        Some(Self { plain, attached: (watched, session), peer })
    }

    fn turn(&mut self, step: u64, argument: u64) -> Turn {
        #[expect(clippy::cast_precision_loss, reason = "a few billion ns")]
        let ns = |fixture: &mut Fixture| fixture.step(step, argument) as f64;
        let (plain, attached) = (ns(&mut self.plain), ns(&mut self.attached.0));
        std::thread::sleep(DRAIN);
        Turn { plain, attached, peer: self.peer.as_mut().map(|(fixture, _)| ns(fixture)) }
    }

    /// Panics unless at least so many calls were recorded, and none dropped.
    fn end(self, calls: u64) {
        let report = self.attached.1.end();
        assert!(report.calls() >= calls, "{} of {calls} calls", report.calls());
        assert!(report.is_complete(), "lost: {:?}", report.heap.lost);
        self.attached.0.finish();
        self.plain.finish();
        if let Some((fixture, _preload)) = self.peer {
            fixture.finish();
        }
    }
}

pub(super) fn measure(rounds: Rounds) -> Vec<DepthCost> {
    let Some(mut ways) = Ways::start(|| Launch::new("depth_cost.c"), 1) else { return Vec::new() };
    let mut turns: [Vec<Turn>; SHAPES.len()] = Default::default();
    // The first round is for what is made once for each stack.
    for round in 0..=rounds.0 {
        for (step, turns) in (1..).zip(&mut turns) {
            let turn = ways.turn(step, PAIRS);
            turns.extend((round > 0).then_some(turn));
        }
    }
    ways.end(2 * PAIRS * u64::from(rounds.0) * SHAPES.len() as u64);
    SHAPES.iter().zip(&turns).map(|(&shape, turns)| cost(shape, turns)).collect()
}

fn cost((frames, changing): (u32, u32), turns: &[Turn]) -> DepthCost {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let pairs = PAIRS as f64;
    let of =
        |value: &dyn Fn(&Turn) -> Option<f64>| Spread::of(turns.iter().filter_map(value).collect());
    DepthCost {
        frames,
        changing,
        plain_ns: of(&|turn| Some(turn.plain / pairs)),
        added_ns: of(&|turn| Some((turn.attached - turn.plain) / pairs)),
        peer_added_ns: of(&|turn| Some((turn.peer? - turn.plain) / pairs)),
        peer_ratio: of(&|turn| Some((turn.peer? - turn.plain) / (turn.attached - turn.plain))),
    }
}

pub(super) fn measure_work(rounds: Rounds) -> Vec<WorkCost> {
    let Some(python) = python() else {
        skip("no python3 here", "apt-get install python3");
        return Vec::new();
    };
    let script = fixture("python_stacks.py");
    let launch = || Some(Launch::program(&python).arg(&script).env("PYTHONMALLOC", "malloc"));
    let Some(mut ways) = Ways::start(launch, 1) else { return Vec::new() };
    let turns: Vec<Turn> = (0..=rounds.0).map(|_| ways.turn(1, REPEATS)).skip(1).collect();
    ways.end(u64::from(rounds.0));
    let of =
        |value: &dyn Fn(&Turn) -> Option<f64>| Spread::of(turns.iter().filter_map(value).collect());
    vec![WorkCost {
        program: "python3, its memory by malloc",
        plain_ms: of(&|turn| Some(turn.plain / 1e6)),
        times: of(&|turn| Some(turn.attached / turn.plain)),
        peer_times: of(&|turn| Some(turn.peer? / turn.plain)),
    }]
}

/// The step of `depth_cost.c` that has two threads work, and the shape of their stacks.
const TWO_THREADS: (u64, u32) = (8, 20);
const PAIRS_OF_TWO: u64 = 2_000_000;

pub(super) fn measure_two_threads(rounds: Rounds) -> Vec<BusyRate> {
    ["drop", "wait"].into_iter().filter_map(|on_full| rate_of_two(on_full, rounds)).collect()
}

fn rate_of_two(on_full: &'static str, rounds: Rounds) -> Option<BusyRate> {
    let [mut plain, mut recorded, mut lost] = [const { Vec::new() }; 3];
    let mut fixture = Launch::new("depth_cost.c")?.start();
    #[expect(clippy::cast_precision_loss, reason = "some millions, some seconds")]
    let rate = |ns: u64| (4 * PAIRS_OF_TWO) as f64 / ns as f64 * 1e3;
    for _ in 0..rounds.0 {
        plain.push(rate(fixture.step(TWO_THREADS.0, PAIRS_OF_TWO)));
        let command = Attached::command(fixture.pid(), Hooks::Auto);
        let command = command.arg("--all").arg("--ring=8MiB").arg(format!("--on-full={on_full}"));
        let session = Attached::start(command, &mut fixture);
        recorded.push(rate(fixture.step(TWO_THREADS.0, PAIRS_OF_TWO)));
        let report = session.end();
        #[expect(clippy::cast_precision_loss, reason = "some millions")]
        lost.push(
            report.heap.lost.values().sum::<u64>() as f64 * 1e3 / report.calls().max(1) as f64,
        );
    }
    fixture.finish();
    Some(BusyRate {
        on_full,
        frames: TWO_THREADS.1,
        plain: Spread::of(plain),
        recorded: Spread::of(recorded),
        lost_of_thousand: Spread::of(lost),
    })
}
