//! The processor time of a pair of malloc and free: as it is, through a wrapper that only jumps on,
//! and hooked.

use serde::Serialize;

use super::{Rounds, Spread};
use crate::{
    attached::Attached,
    command::Hooks,
    compile::Source,
    fixture::{Fixture, Launch},
};

/// Steps of `pair_cost.c`, and pairs of one measurement.
const WORKLOADS: [(&str, u64, u64); 2] = [("tight", 1, 500_000), ("mixed", 2, 250_000)];

/// What a pair costs one way.
#[derive(Debug, Serialize)]
pub struct PairCost {
    /// How malloc and free are reached.
    pub way: &'static str,
    /// Which pairs.
    pub workload: &'static str,
    /// Processor time of a pair.
    pub ns: Spread,
    /// Over that of the wrapper in the same round.
    pub over_wrapper_ns: Spread,
}

/// A program that runs pairs one way.
pub(super) struct Runner {
    pub(super) way: &'static str,
    pub(super) fixture: Fixture,
    session: Option<Attached>,
}

/// The programs to compare; the wrapper is the second. `None` without a compiler.
pub(super) fn runners() -> Option<[Runner; 4]> {
    let wrapper = Source::new("jump_only.c").build()?;
    let start =
        |way| Some(Runner { way, fixture: Launch::new("pair_cost.c")?.start(), session: None });
    let jump = Launch::new("pair_cost.c")?.env("LD_PRELOAD", wrapper).start();
    let mut slots = start("hooked by slots")?;
    slots.session = Some(Attached::to(&mut slots.fixture, Hooks::Slots));
    let mut entry = start("hooked by entries")?;
    entry.session = Some(Attached::to(&mut entry.fixture, Hooks::Entry));
    let wrapped = Runner { way: "wrapper that jumps", fixture: jump, session: None };
    Some([start("plain")?, wrapped, slots, entry])
}

impl Runner {
    /// Detaches, if attached, and panics if fewer than `pairs` pairs were counted.
    pub(super) fn end(self, pairs: u64) {
        if let Some(session) = self.session {
            let report = session.end();
            for function in ["malloc", "free"] {
                let counted = report.calls_of(function);
                assert!(counted >= pairs, "{}: {counted} of {pairs} {function}", self.way);
            }
        }
        self.fixture.finish();
    }
}

pub(super) fn measure(rounds: Rounds) -> Vec<PairCost> {
    let Some(mut runners) = runners() else { return Vec::new() };
    let mut costs = Vec::new();
    for (workload, step, pairs) in WORKLOADS {
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..rounds.0 {
            for (runner, times) in runners.iter_mut().zip(&mut times) {
                #[expect(clippy::cast_precision_loss, reason = "a few million ns")]
                times.push(runner.fixture.step(step, pairs) as f64 / pairs as f64);
            }
        }
        let wrapper = times[1].clone();
        for (runner, times) in runners.iter().zip(times) {
            let over = times.iter().zip(&wrapper).map(|(time, wrapper)| time - wrapper).collect();
            let (ns, over_wrapper_ns) = (Spread::of(times), Spread::of(over));
            costs.push(PairCost { way: runner.way, workload, ns, over_wrapper_ns });
        }
    }
    let pairs = WORKLOADS.iter().map(|(_, _, pairs)| pairs * u64::from(rounds.0)).sum();
    for runner in runners {
        runner.end(pairs);
    }
    costs
}
