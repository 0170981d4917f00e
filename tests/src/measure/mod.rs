//! What heapattach costs, measured in pairs.
//!
//! Two things that are compared are measured in turns (A, B, A, B, ...) on the same machine in the same
//! minute, and told as median and quartiles: a number without its neighbour means little on a
//! shared machine, a mean hides what one bad turn did. Times of code are processor time of the
//! thread that runs it; times of stops are what the command states, checked from outside by how
//! long the target gave no answer.

mod busy;
mod depth;
mod instructions;
mod pairs;
mod preload;
mod rank;
mod recording;
mod spread;
mod stops;
mod table;

use serde::Serialize;

pub use busy::Busy;
pub use depth::{BusyRate, DepthCost, WorkCost};
pub use instructions::Instructions;
pub use pairs::PairCost;
pub use rank::rank;
pub use recording::Recording;
pub use spread::Spread;
pub use stops::Stops;

/// How often each measurement is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Rounds(pub u32);

/// All measurements of one run.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// How long a target is stopped, by its number of threads.
    pub stops: Vec<Stops>,
    /// What a pair of malloc and free costs in time.
    pub pairs: Vec<PairCost>,
    /// And in instructions.
    pub instructions: Vec<Instructions>,
    /// What it costs to record everything, and in memory.
    pub recording: Vec<Recording>,
    /// What it costs to record everything with its stacks.
    pub depth: Vec<DepthCost>,
    /// The same for a program's work.
    pub work: Vec<WorkCost>,
    /// And how much of it can be taken in.
    pub two_threads: Vec<BusyRate>,
}

impl Results {
    /// Measures everything that can be measured here, which takes minutes, or `only` one part.
    ///
    /// # Panics
    /// If the command under test fails.
    pub fn measure(rounds: Rounds, only: Option<&str>) -> Self {
        let wanted = |part| only.is_none_or(|only| only == part);
        let mut results = Self::default();
        if wanted("stops") {
            results.stops = stops::measure(rounds);
        }
        if wanted("pairs") {
            results.pairs = pairs::measure(rounds);
            results.instructions = instructions::measure();
        }
        if wanted("recording") {
            results.recording = recording::measure(rounds);
        }
        if wanted("depth") {
            results.depth = depth::measure(rounds);
            results.work = depth::measure_work(rounds);
            results.two_threads = depth::measure_two_threads(rounds);
        }
        results
    }
}
