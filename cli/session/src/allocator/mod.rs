//! `heapattach allocator`: what the allocators of a process count, read while it runs.
//!
//! ```text
//! map, variables -> where counters are (once) -> counters, again and again -> rates, advice -> report
//! Go: build information, votes -> where the runtime's figures are (once) -> ...
//! ```
//!
//! Nothing is stopped and nothing is written: it needs the right to read the process's memory, no more.

pub mod background;
pub mod decay;
mod facts;
mod foretold;
mod gated;
pub(crate) mod go;
mod origins;
pub mod profiler;
pub mod purge;
mod thread_room;
pub mod trim;

use std::{
    io::Write,
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use heapattach_census::{
    Live, Moment,
    counters::{self, Place, Statistics},
};
use heapattach_process::proc::Process;
use heapattach_report::{
    AppliedReport, CountedReport, CountersReport, RatesReport, Status, TargetState, micros,
};
use heapattach_verdict::advice::{Scene, advise};
use nix::errno::Errno;

/// How often counters are looked for that are not found at first.
const ATTEMPTS: u32 = 3;

/// Applies a remedy, in the tracing process, and tells the command.
pub fn tell(mut line: UnixStream, apply: impl FnOnce() -> AppliedReport) {
    crate::fork::leave_session();
    let report = apply();
    heapattach_process::fault::summary();
    let text = serde_json::to_vec(&report).unwrap_or_default();
    // The command may be gone: what was done is done.
    let _ = line.write_all(&text);
}

/// A process whose counters were found.
#[derive(Debug)]
pub struct Look {
    process: Process,
    live: Live,
    places: Vec<Place>,
    go: Option<go::Go>,
    before: Option<(Instant, Vec<Statistics>)>,
    huge: facts::Huge,
}

impl Look {
    /// At that process.
    ///
    /// # Errors
    /// When it is not there or may not be read.
    pub fn open(pid: i32) -> Result<Self, Errno> {
        let process = Process::open(pid)?;
        let live = Live::open(&process)?.without_swap();
        let mut look = Self {
            process,
            live,
            places: Vec::new(),
            go: None,
            before: None,
            huge: facts::Huge::default(),
        };
        // A process in the middle of its start may map what leads to the counters just now.
        for _ in 0..=ATTEMPTS {
            let now = moment(&look.process, &look.live)?;
            look.go = go::Go::find(&now, &look.process);
            // Variables of Go are like anything, and an allocator is a C library's or in one.
            let is_alone = look.go.as_ref().is_some_and(go::Go::is_alone);
            look.places = if is_alone { Vec::new() } else { counters::find(&now) };
            if look.counted(&now).iter().any(|own| !own.stats.is_empty()) {
                break;
            }
        }
        Ok(look)
    }

    /// What is counted now, by each that counts.
    fn counted(&self, moment: &Moment<'_>) -> Vec<Statistics> {
        let go = self.go.as_ref().and_then(|go| go.read(moment));
        go.into_iter().chain(self.places.iter().filter_map(|place| place.read(moment))).collect()
    }

    /// What is counted now.
    pub(crate) fn statistics(&self) -> Result<Vec<Statistics>, Errno> {
        Ok(self.counted(&moment(&self.process, &self.live)?))
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What is counted now, and since the look before.
    pub fn take(&mut self) -> CountersReport {
        let pid = self.process.pid();
        let began = Instant::now();
        let report = CountersReport::new(pid, self.process.command());
        let moment = match moment(&self.process, &self.live) {
            Ok(moment) if !moment.regions().is_empty() => moment,
            Ok(_) | Err(_) => {
                let why = format!("process {pid} has ended (target: untouched)");
                return report.failed(Status::TargetDied, why);
            }
        };
        let all = self.counted(&moment);
        let process = facts::conditions(&self.process, &mut self.huge);
        let origins = origins::Given::of(&self.process);
        let allocators = (all.iter().enumerate()).map(|(number, now)| {
            let before = self.before.as_ref().and_then(|(at, old)| {
                let old = old.get(number).filter(|old| old.module == now.module)?;
                Some((old, began.duration_since(*at)))
            });
            let rates = before.map(|(old, time)| RatesReport::of(old, now, time.as_secs_f64()));
            let advice = advise(&Scene { now, before, conditions: &process });
            CountedReport { origins: origins.origins(now), statistics: now.clone(), rates, advice }
        });
        let allocators: Vec<_> = allocators.collect();
        self.before = Some((began, all));
        let report =
            CountersReport { process, look_us: micros(began.elapsed()), allocators, ..report };
        conclude(report)
    }

    /// Waits until the next look is due; whether the process is still there.
    pub fn wait(&self, every: Duration) -> bool {
        let due = self.before.as_ref().map(|(at, _)| *at + every);
        let rest = due.map(|due| due.saturating_duration_since(Instant::now()));
        thread::sleep(rest.unwrap_or_default());
        self.process.is_alive()
    }
}

/// The process as it is now. It runs on: what is read of it is of several instants.
fn moment<'m>(process: &Process, live: &'m Live) -> Result<Moment<'m>, Errno> {
    Ok(Moment::new(live, Live::regions(process)?, Vec::new()))
}

/// Why a remedy counts as failed that was applied.
fn no_effect() -> String {
    let why = "no effect was measured: the resident set is as large as before";
    format!("{why} (target: {})", TargetState::Restored)
}

fn conclude(report: CountersReport) -> CountersReport {
    if report.allocators.is_empty() {
        let why = "no allocator whose counters are known was found (target: untouched)".to_owned();
        return report.failed(Status::Unsupported, why);
    }
    let is_told = |one: &CountedReport| !one.statistics.stats.is_empty();
    if !report.allocators.iter().any(is_told) {
        let unknown = report.allocators.iter().flat_map(|one| &one.statistics.unknown);
        let unknown: Vec<_> = unknown.cloned().collect();
        let why = format!("not told: {} (target: untouched)", unknown.join("; "));
        return CountersReport { status: Status::Incomplete, error: Some(why), ..report };
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_is_no_look() {
        assert!(Look::open(i32::MAX).is_err());
    }
}
