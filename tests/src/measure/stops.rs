//! How long a target is stopped, by its number of threads.

use std::time::Duration;

use serde::Serialize;

use super::{Rounds, Spread};
use crate::{
    command::{Heapattach, Hooks},
    fixture::Launch,
};

const THREADS: [u32; 3] = [1, 100, 1000];
const WINDOW: Duration = Duration::from_millis(30);

/// The stops of one target.
#[derive(Debug, Serialize)]
pub struct Stops {
    /// How many threads it has.
    pub threads: u32,
    /// How it was hooked.
    pub hooks: &'static str,
    /// Time stopped at attach, in microseconds.
    pub attach_us: Spread,
    /// Time stopped at detach.
    pub detach_us: Spread,
    /// Unsafe window: a SIGKILL of the tracing process then would crash the target.
    pub window_us: Spread,
}

/// Attaches to targets with few and many threads, in turns.
pub(super) fn measure(rounds: Rounds) -> Vec<Stops> {
    THREADS.iter().flat_map(|&threads| measure_one(threads, rounds)).collect()
}

fn measure_one(threads: u32, rounds: Rounds) -> Vec<Stops> {
    let Some(launch) = Launch::new("many_threads.c") else { return Vec::new() };
    let mut fixture = launch.arg(threads.to_string()).start();
    let mut series = [Hooks::Auto, Hooks::Slots].map(|hooks| (hooks, [vec![], vec![], vec![]]));
    for _ in 0..rounds.0 {
        for (hooks, [attach, detach, window]) in &mut series {
            let report = Heapattach::attach(fixture.pid(), WINDOW, *hooks).run().expect(0).report();
            attach.extend(report.stopped_us("attach"));
            detach.extend(report.stopped_us("detach"));
            window.push(report.window_us);
            fixture.assert_well();
        }
    }
    fixture.finish();
    let told = series.map(|(hooks, times)| {
        let [attach_us, detach_us, window_us] = times.map(Spread::of);
        Stops { threads, hooks: hooks.name(), attach_us, detach_us, window_us }
    });
    told.into()
}
