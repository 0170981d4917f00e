//! A session of known events that is written down.

use std::{io, path::Path, time::Duration};

use heapattach_abi::ring::OWN_RINGS;
use heapattach_injector::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    stacks::{Stack, StackEnd},
};

use crate::{
    clock::Clock,
    ledger::{About, Function, Ledger, Line, Location, Metric, Module, Moment, Thread},
    naming::Code,
    profile::{Limits, Profile, Tick, ticks},
    recording::{Heading, Mark, Patience, Scribe, StackSource, Tape, create, disk::Disk},
};

/// A second, in ticks.
pub fn second() -> u64 {
    ticks(Duration::from_secs(1))
}

/// Some stacks with two addresses each.
pub struct Known(Vec<Stack>);

impl Known {
    pub fn new(count: u64) -> Self {
        let stack = |number: u64| Stack {
            frames: vec![RemoteAddr::new(0x1000 + number * 16), RemoteAddr::new(0x9000)],
            end: StackEnd::Outermost,
            native: None,
        };
        Self((1..=count).map(stack).collect())
    }

    pub fn code(&self) -> Code {
        let function = |number: usize| Function {
            name: format!("function {number}\u{1b}[2J"),
            is_named: true,
            ..Function::default()
        };
        let location = |(number, address): (u32, u64)| Location {
            address,
            offset: address,
            lines: vec![Line { function: number, line: None }],
            ..Location::default()
        };
        let inner = self.0.iter().map(|stack| stack.frames[0].get());
        let module = Module { path: "/bin/program".to_owned(), ..Module::default() };
        Code {
            modules: vec![module, Module::default()],
            functions: (0..=self.0.len()).map(function).collect(),
            locations: (0..).zip(inner.chain([0x9000])).map(location).collect(),
        }
    }
}

impl StackSource for Known {
    fn stack(&self, id: StackId) -> Option<&Stack> {
        self.0.get((id.0 as usize).checked_sub(1)?)
    }
}

pub fn tape(disk: impl Disk + 'static, path: &Path, limit: u64) -> Tape {
    Tape::start(disk, Some(path.to_owned()), limit, Patience::default()).unwrap()
}

/// A session that is written down, and what comes to be known beside.
pub struct Session {
    pub profile: Profile,
    pub scribe: Scribe,
    pub stacks: Known,
    pub stamp: u64,
    pub now: u64,
    pub every: u64,
}

impl Session {
    pub fn new(path: &Path, limit: u64) -> Self {
        Self::on(tape(create(path).unwrap(), path, limit))
    }

    pub fn on(tape: Tape) -> Self {
        let mut scribe = Scribe::new(tape, true);
        let about = About { pid: 7, every: 1, ..About::default() };
        scribe.heading(&Heading { about, ..Heading::default() });
        scribe.threads(&[Thread::default(), Thread { tid: 9, name: "worker".to_owned() }]);
        let mut profile = Profile::new(Limits::default(), Clock::temporary());
        let mut writers = [0; OWN_RINGS];
        writers[5] = 1;
        profile.set_writers(&writers);
        Self { profile, scribe, stacks: Known::new(3), stamp: 0, now: 0, every: 1 }
    }

    pub fn event(&mut self, ring: u8, what: What) {
        self.scribe.set_now(self.now);
        let origin = Origin { ring, ..Origin::default() };
        let event = Event { stamp: self.stamp, origin, what };
        self.profile.apply(&[event], Tick::of(self.now), &mut self.scribe);
        self.stamp += 1;
    }

    pub fn allocate(&mut self, ring: u8, at: u64, size: u64) {
        let stack = StackId(u32::try_from(at % 3).unwrap() + 1);
        let at = RemoteAddr::new(at * 16);
        self.event(ring, What::Allocated { at, size, stack, interval: 1 });
    }

    pub fn free(&mut self, at: u64) {
        self.event(0, What::Freed { at: RemoteAddr::new(at * 16), block: None });
    }

    pub fn keep_up(&mut self) {
        self.scribe.keep_up(self.now, &mut self.profile, &self.stacks);
    }

    pub fn finish(self) {
        self.conclude().unwrap();
    }

    pub fn conclude(mut self) -> io::Result<u64> {
        self.scribe.snapshot(self.now, &mut self.profile, &self.stacks);
        let outcome = "detached".to_owned();
        let about = About { pid: 7, every: self.every, outcome, ..About::default() };
        let about = About { lasted_ms: self.now * 1000 / second(), ..about };
        let heading = Heading { about, is_final: true, ..Heading::default() };
        self.scribe.finish(&heading, Some(&self.stacks.code()))
    }
}

/// Ten seconds; in each four blocks come, and one of the second before goes.
pub fn ten_seconds(path: &Path) {
    ten_seconds_in_hurry(path, |_| false);
}

/// The same, where more comes than is taken in at the end of some of these seconds.
pub fn ten_seconds_in_hurry(path: &Path, hurries: impl Fn(u64) -> bool) {
    let mut session = Session::new(path, 1 << 30);
    for number in 0..10 {
        session.now = number * second() + 3;
        if hurries(number) {
            session.scribe.hurry(session.now);
        }
        for block in 0..4 {
            session.allocate(if block == 0 { 5 } else { 0 }, number * 10 + block, 100 + number);
        }
        if number > 0 {
            session.free((number - 1) * 10);
        }
        session.scribe.moment(Moment { at_ms: number * 1000, ..Moment::default() });
        session.scribe.mark(Mark { at_ms: number * 1000, why: format!("second {number}") });
        session.keep_up();
    }
    session.now = 10 * second();
    session.finish();
}

pub fn blocks(ledger: &Ledger, metric: Metric) -> f64 {
    let rows = ledger.rows.iter().map(|row| row.measure(metric).count.value);
    let sum: f64 = rows.sum();
    assert_eq!(sum, ledger.total.measure(metric).count.value, "rows are all there is");
    sum
}

pub fn window(from: u64, to: u64) -> Option<std::ops::Range<Duration>> {
    Some(Duration::from_secs(from)..Duration::from_secs(to))
}
