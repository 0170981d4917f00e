//! Attaching again and again to one living fixture that makes it hard.
//!
//! After every cycle the fixture must have gone on, with nothing wrong to tell; after the last one
//! it must be what it was before the first, and end well.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    command::{Heapattach, Hooks},
    fixture::Fixture,
    report::Report,
    seed::{Random, seed},
    task::Task,
    trace::Before,
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

/// Points in the run of a hazard.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// The fingerprint before has been taken; cycles follow.
    Begun,
    /// A cycle is over, with this report.
    Cycle(&'a Report),
    /// The last cycle is over; the fingerprint after follows.
    Over,
}

/// A fixture, and how it is to be attached to.
pub struct Hazard {
    name: String,
    fixture: Fixture,
    hooks: Hooks,
    is_loose: bool,
    is_stopped: bool,
    calls: Calls,
    warm_up: u64,
    cycles: u64,
    progress: u64,
    until: Box<dyn Fn() -> bool>,
    arguments: Vec<String>,
    recordings: &'static [&'static str],
    refusal: Option<(&'static [i32], &'static str)>,
    leaving: Option<&'static str>,
}

/// What each cycle has the command record, by chance: few samples, many, or everything.
const RECORDINGS: [&str; 3] = ["--every=512KiB", "--every=4KiB", "--all"];

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

/// So many more there are at most until something holds.
const MORE_CYCLES: u64 = 500;

/// The exit status of a command that had to leave something, and how often it is tried again.
const LEFT: i32 = 7;
const TURNS: usize = 10;

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
        Self {
            name: format!("{name} ({})", hooks.name()),
            fixture,
            hooks,
            is_loose: false,
            is_stopped: false,
            calls: Calls::EveryCycle,
            warm_up: 1,
            cycles: cycles(),
            progress: 0,
            until: Box::new(|| true),
            arguments: Vec::new(),
            recordings: &RECORDINGS,
            refusal: None,
            leaving: None,
        }
    }

    /// The fixture's private memory comes and goes, also while it is paused.
    #[must_use]
    pub fn loose(mut self) -> Self {
        self.is_loose = true;
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

    /// Goes on with cycles until the fixture has come this far under our eyes.
    #[must_use]
    pub fn until_progress(mut self, steps: u64) -> Self {
        self.progress = steps;
        self
    }

    /// Goes on with cycles until this holds, of which one may do as well as many: the machine has the say.
    #[must_use]
    pub fn until(mut self, holds: impl Fn() -> bool + 'static) -> Self {
        self.until = Box::new(holds);
        self
    }

    /// Stops the fixture with SIGSTOP while the command runs; it must still be stopped afterwards.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        self.is_stopped = true;
        self
    }

    /// Gives the command one more argument.
    #[must_use]
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The command may refuse with one of these exit statuses, if it says this; nothing is counted then.
    #[must_use]
    pub fn may_refuse(mut self, statuses: &'static [i32], why: &'static str) -> Self {
        self.refusal = Some((statuses, why));
        self.calls = Calls::Sometimes;
        self
    }

    /// The command may have to leave what it cannot take away, if it says this; `heapattach detach`
    /// takes it away then.
    #[must_use]
    pub fn may_leave(mut self, why: &'static str) -> Self {
        self.leaving = Some(why);
        self
    }

    /// Runs this many cycles, or more in a soak.
    #[must_use]
    pub fn cycles(mut self, cycles: u64) -> Self {
        self.cycles = self.cycles.max(cycles);
        self
    }

    /// Has everything recorded in every cycle.
    #[must_use]
    pub fn recording_all(mut self) -> Self {
        self.recordings = &RECORDINGS[2..];
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
    pub fn run_with(self, mut check: impl FnMut(&mut Fixture, &Report)) -> Summary {
        self.run_watched(|fixture, moment| {
            if let Moment::Cycle(report) = moment {
                check(fixture, report);
            }
        })
    }

    /// Runs the cycles; `watch` may disturb the fixture between its first moment and its last.
    ///
    /// # Panics
    /// If anything at all is not as it should be.
    pub fn run_watched(mut self, mut watch: impl FnMut(&mut Fixture, Moment)) -> Summary {
        let seed = seed();
        let mut random = Random::new(seed);
        eprintln!("{}: seed {seed}", self.name);
        self.fixture.advance(self.warm_up);
        let before = Before::of(&mut self.fixture);
        let before = if self.is_loose { before.loose() } else { before };
        let began = self.fixture.progress();
        let mut summary = Summary::default();
        let mut cycle = 0;
        watch(&mut self.fixture, Moment::Begun);
        let most = self.cycles + MORE_CYCLES;
        while cycle < self.cycles
            || self.fixture.progress() - began < self.progress
            || (cycle < most && !(self.until)())
        {
            let report = self.cycle(cycle, &mut random);
            watch(&mut self.fixture, Moment::Cycle(&report));
            summary.add(report);
            cycle += 1;
        }
        watch(&mut self.fixture, Moment::Over);
        let progress = self.fixture.progress() - began;
        summary.print(&self.name, cycle, progress, seed);
        assert!(self.calls == Calls::Never || summary.calls > 0, "{}: no call counted", self.name);
        before.assert_equal(&mut self.fixture, &format!("({})", self.name));
        self.fixture.finish();
        summary
    }

    fn cycle(&mut self, cycle: u64, random: &mut Random) -> Report {
        let mut window = Duration::from_millis(random.between(5, 60));
        let mut looks = 0;
        loop {
            if self.is_stopped {
                self.stop();
            }
            let report = self.attach(cycle, window, random);
            if self.is_stopped {
                self.go_on();
            }
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

    fn attach(&self, cycle: u64, window: Duration, random: &mut Random) -> Report {
        let chosen = random.between(0, self.recordings.len() as u64);
        let chosen = usize::try_from(chosen).ok().and_then(|i| self.recordings.get(i));
        // Other tests keep the processors busy: a long stop is not a hazard here.
        let mut command =
            Heapattach::attach(self.fixture.pid(), window, self.hooks).arg("--max-stop=1h");
        command = command.arg(*chosen.unwrap_or(&RECORDINGS[0]));
        for argument in &self.arguments {
            command = command.arg(argument);
        }
        let outcome = command.run();
        let is_refusal = self.refusal.is_some_and(|(statuses, why)| {
            outcome.code().is_some_and(|code| statuses.contains(&code))
                && outcome.stderr.contains(why)
        });
        if is_refusal {
            return outcome.report();
        }
        if self.leaving.is_some_and(|why| outcome.stderr.contains(why)) {
            assert_eq!(outcome.code(), Some(LEFT), "{}", outcome.stderr);
            // As often as its user would.
            let detach = || Heapattach::detach(self.fixture.pid()).run();
            let mut turns = std::iter::repeat_with(detach).take(TURNS);
            assert!(
                turns.any(|again| again.code() == Some(0)),
                "{}: {}",
                self.name,
                outcome.stderr
            );
            return outcome.report();
        }
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

    /// Stops the whole fixture as Ctrl-Z does.
    fn stop(&mut self) {
        kill(Pid::from_raw(self.fixture.pid()), Signal::SIGSTOP).expect("a child of ours");
        self.fixture.wait_for("it to stop", |f| Task::leader(f.pid()).state() == Some('T'));
    }

    /// Lets it go on, but first makes sure that no other process did.
    fn go_on(&mut self) {
        let progress = self.fixture.progress();
        self.fixture
            .wait_for("it to be stopped still", |f| Task::leader(f.pid()).state() == Some('T'));
        assert_eq!(self.fixture.progress(), progress, "{}: a stopped target went on", self.name);
        kill(Pid::from_raw(self.fixture.pid()), Signal::SIGCONT).expect("a child of ours");
    }
}

impl Summary {
    /// How long the target was stopped for each attach, in microseconds.
    #[must_use]
    pub fn attach_us(&self) -> &[f64] {
        &self.attach_us
    }

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

/// Makes two tests of `function(Hooks)`: with automatic hooks, and with slots only.
#[macro_export]
macro_rules! hazards {
    ($($function:ident),+ $(,)?) => {$(
        mod $function {
            use $crate::command::Hooks;
            #[test]
            fn with_automatic_hooks() {
                super::$function(Hooks::Auto);
            }
            #[test]
            fn with_slots() {
                super::$function(Hooks::Slots);
            }
        }
    )+};
}
