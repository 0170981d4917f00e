//! Attaching again and again to one living fixture that makes it hard.
//!
//! After every cycle the fixture must have gone on, with nothing wrong to tell; after the last one
//! it must be what it was before the first, and end well.

use std::time::Duration;

use crate::{
    command::{Heapattach, Hooks},
    fingerprint::{Fingerprint, Scope, diff_within},
    fixture::Fixture,
    report::Report,
    seed::{Random, seed},
};

/// What the target's own doings let us expect of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// It calls all the time: every cycle must count something.
    EveryCycle,
    /// It calls now and then: the cycles together must count something.
    Sometimes,
    /// It cannot call while we are attached.
    Never,
}

/// A fixture, and how it is to be attached to.
#[derive(Debug)]
pub struct Hazard {
    name: String,
    fixture: Fixture,
    hooks: Hooks,
    scope: Scope,
    calls: Calls,
    warm_up: u64,
    cycles: u64,
    arguments: Vec<String>,
}

/// What the cycles of a hazard gave.
#[derive(Debug, Default)]
pub struct Summary {
    /// Calls counted in all cycles.
    pub calls: u64,
    /// The last cycle's report.
    pub last: Report,
    attach_us: Vec<f64>,
    detach_us: Vec<f64>,
}

/// A window with no call in it is tried again this often, ten times longer each time: the machine
/// may not have let the target run at all.
const SECOND_LOOKS: u32 = 2;

/// How many cycles to run: `HEAPATTACH_CYCLES`, or ten.
///
/// # Panics
/// If the variable is not a number.
pub fn cycles() -> u64 {
    let text = std::env::var("HEAPATTACH_CYCLES").unwrap_or_else(|_| "10".to_owned());
    text.parse().expect("HEAPATTACH_CYCLES is a number")
}

impl Hazard {
    /// Attaches to `fixture` with `hooks`, expecting calls in every cycle and no trace at all.
    pub fn new(name: &str, fixture: Fixture, hooks: Hooks) -> Self {
        let (scope, calls) = (Scope::Exact, Calls::EveryCycle);
        let (name, arguments) = (format!("{name} ({})", hooks.name()), Vec::new());
        Self { name, fixture, hooks, scope, calls, warm_up: 1, cycles: cycles(), arguments }
    }

    /// The fixture's private memory comes and goes, also while it is paused.
    #[must_use]
    pub fn loose(mut self) -> Self {
        self.scope = Scope::Loose;
        self
    }

    /// What counts to expect.
    #[must_use]
    pub fn calls(mut self, calls: Calls) -> Self {
        self.calls = calls;
        self
    }

    /// How far the fixture must come before it is in its usual state.
    #[must_use]
    pub fn warm_up(mut self, steps: u64) -> Self {
        self.warm_up = steps;
        self
    }

    /// Runs at most this many cycles, because each takes long.
    #[must_use]
    pub fn at_most(mut self, cycles: u64) -> Self {
        self.cycles = self.cycles.min(cycles);
        self
    }

    /// Gives the command one more argument.
    #[must_use]
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Runs the cycles.
    ///
    /// # Panics
    /// If anything at all is not as it should be.
    pub fn run(self) -> Summary {
        self.run_with(|_, _| ())
    }

    /// Runs the cycles, looking at the fixture and the report after each.
    ///
    /// # Panics
    /// If anything at all is not as it should be.
    pub fn run_with(mut self, mut check: impl FnMut(&mut Fixture, &Report)) -> Summary {
        let seed = seed();
        let mut random = Random::new(seed);
        eprintln!("{}: seed {seed}", self.name);
        self.fixture.advance(self.warm_up);
        let before = self.still();
        let began = self.fixture.progress();
        let mut summary = Summary::default();
        for cycle in 0..self.cycles {
            let report = self.cycle(cycle, &mut random);
            check(&mut self.fixture, &report);
            summary.add(report);
        }
        let progress = self.fixture.progress() - began;
        summary.print(&self.name, self.cycles, progress, seed);
        assert!(self.calls == Calls::Never || summary.calls > 0, "{}: no call counted", self.name);
        let after = self.still();
        let trace = diff_within(&before, &after, self.scope);
        if !trace.is_empty() {
            self.fixture.fail(&format!("({}) bears a trace:\n{}\n", self.name, trace.join("\n")));
        }
        self.fixture.finish();
        summary
    }

    fn cycle(&mut self, cycle: u64, random: &mut Random) -> Report {
        let mut window = Duration::from_millis(random.between(5, 60));
        let mut looks = 0;
        loop {
            let report = self.attach(cycle, window);
            self.fixture.assert_well();
            self.fixture.advance(1);
            self.fixture.assert_well();
            if report.calls() > 0 || self.calls != Calls::EveryCycle {
                return report;
            }
            let again = looks < SECOND_LOOKS;
            assert!(again, "{}: nothing counted in {window:?}, cycle {cycle}", self.name);
            looks += 1;
            window *= 10;
        }
    }

    fn attach(&self, cycle: u64, window: Duration) -> Report {
        let mut command = Heapattach::attach(self.fixture.pid(), window, self.hooks);
        for argument in &self.arguments {
            command = command.arg(argument);
        }
        let outcome = command.run();
        if outcome.code() != Some(0) {
            let status = outcome.status;
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            self.fixture.fail(&format!("({}) cycle {cycle} gave {status}:\n{said}", self.name));
        }
        let report = outcome.report();
        assert_eq!(report.outcome, "detached", "{}: {report:?}", self.name);
        assert_eq!(report.target, "restored", "{}: {report:?}", self.name);
        assert!(report.left.is_empty(), "{}: {:?}", self.name, report.left);
        report
    }

    /// The fingerprint of the paused fixture.
    fn still(&mut self) -> Fingerprint {
        self.fixture.pause();
        let print = Fingerprint::of(self.fixture.pid());
        let print = print.unwrap_or_else(|e| self.fixture.fail(&format!("cannot be read: {e}")));
        self.fixture.resume();
        print
    }
}

impl Summary {
    fn add(&mut self, report: Report) {
        self.calls += report.calls();
        self.attach_us.extend(report.stopped_us("attach"));
        self.detach_us.extend(report.stopped_us("detach"));
        self.last = report;
    }

    fn print(&self, name: &str, cycles: u64, progress: u64, seed: u64) {
        let (attach, detach) = (spread(&self.attach_us), spread(&self.detach_us));
        println!(
            "hazard {name}: {cycles} cycles, {} calls counted, progress {progress}, seed {seed}, \
             stopped at attach {attach}, at detach {detach} (median/max)",
            self.calls
        );
    }
}

fn spread(times: &[f64]) -> String {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    match (times.get(times.len() / 2), times.last()) {
        (Some(median), Some(max)) => format!("{median:.0}/{max:.0} us"),
        _ => "-".to_owned(),
    }
}
