//! A session of known events that is written down.

use std::{path::Path, time::Duration};

use heapattach_abi::ring::OWN_RINGS;
use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    stack::{Stack, StackEnd},
};

use crate::{
    Context, Cut, Ended, Heading, Patience, Replay, SessionWriter, StackSource, WriteQueue, create,
};
use crate::{format::disk::Disk, names::Code};
use heapattach_ledger::{
    About, Function, Ledger, Line, Location, Mark, Metric, Module, Moment, Outcome, Thread,
};
use heapattach_profile::clock::Clock;
use heapattach_profile::{Limits, Profile, Tick, ticks};

/// A second, in ticks.
pub fn second() -> u64 {
    ticks(Duration::from_secs(1))
}

/// Some stacks with two addresses each.
#[derive(Debug)]
pub struct Known(Vec<Stack>);

impl Known {
    /// So many.
    pub fn new(count: u64) -> Self {
        let stack = |number: u64| Stack {
            frames: vec![RemoteAddr::new(0x1000 + number * 16), RemoteAddr::new(0x9000)],
            end: StackEnd::Outermost,
            native: None,
        };
        Self((1..=count).map(stack).collect())
    }

    /// These, numbered from 1 on.
    pub fn of(stacks: Vec<Stack>) -> Self {
        Self(stacks)
    }

    /// The code that they lead to.
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

/// What writes to this disk.
///
/// # Panics
/// If it cannot.
pub fn write_queue(disk: impl Disk + 'static, path: &Path, limit: u64) -> WriteQueue {
    WriteQueue::start(disk, Some(path.to_owned()), limit, Patience::default()).unwrap()
}

/// A session that is written down, and what comes to be known beside.
#[derive(Debug)]
pub struct Session {
    /// What it adds up to.
    pub profile: Profile,
    /// What writes it down.
    pub session_writer: SessionWriter,
    /// Its stacks.
    pub stacks: Known,
    /// The number of the next event.
    pub stamp: u64,
    /// The time, in ticks.
    pub now: u64,
    /// Mean bytes between samples.
    pub every: u64,
}

impl Session {
    /// In a new file.
    ///
    /// # Panics
    /// If there can be none.
    pub fn new(path: &Path, limit: u64) -> Self {
        Self::on(write_queue(create(path).unwrap(), path, limit))
    }

    /// Written by this.
    pub fn on(write_queue: WriteQueue) -> Self {
        let mut session_writer = SessionWriter::new(write_queue, true);
        let about = About { pid: 7, every: 1, ..About::default() };
        session_writer.heading(&Heading { about, ..Heading::default() });
        session_writer.threads(&threads());
        let mut profile = Profile::new(Limits::default(), Clock::temporary());
        let mut writers = [0; OWN_RINGS];
        writers[5] = 1;
        profile.set_writers(&writers);
        Self { profile, session_writer, stacks: Known::new(3), stamp: 0, now: 0, every: 1 }
    }

    /// Something happens in the thread of this ring.
    pub fn event(&mut self, ring: u8, what: What) {
        self.session_writer.set_now(self.now);
        let origin = Origin { ring, ..Origin::default() };
        let event = Event { stamp: self.stamp, origin, what };
        self.profile.apply(&[event], Tick::of(self.now), &mut self.session_writer);
        self.stamp += 1;
    }

    /// A block is allocated in the place of this number.
    ///
    /// # Panics
    /// Never: stacks are few.
    pub fn allocate(&mut self, ring: u8, at: u64, size: u64) {
        let stack = StackId(u32::try_from(at % 3).unwrap() + 1);
        let at = RemoteAddr::new(at * 16);
        self.event(ring, What::Allocated { at, size, stack, interval: 1 });
    }

    /// It is freed.
    pub fn free(&mut self, at: u64) {
        self.event(0, What::Freed { at: RemoteAddr::new(at * 16), block: None });
    }

    /// What happened is written down.
    pub fn keep_up(&mut self) {
        self.session_writer.keep_up(self.now, &mut self.profile, &self.stacks);
    }

    /// It ends.
    ///
    /// # Panics
    /// If it could not be written.
    pub fn finish(self) {
        self.conclude().unwrap();
    }

    /// It ends, with other code for its stacks.
    ///
    /// # Panics
    /// If it could not be written.
    pub(super) fn finish_with(mut self, code: &Code) {
        self.session_writer.snapshot(self.now, &mut self.profile, &self.stacks);
        let heading = self.heading();
        self.session_writer.finish(&heading, Some(code)).unwrap();
    }

    /// It ends; how many bytes were written.
    ///
    /// # Errors
    /// Where it was cut.
    pub fn conclude(mut self) -> Result<u64, Cut> {
        self.session_writer.snapshot(self.now, &mut self.profile, &self.stacks);
        let heading = self.heading();
        self.session_writer.finish(&heading, Some(&self.stacks.code()))
    }

    /// It ends; the ledger of what is in memory, where these are its moments.
    ///
    /// # Panics
    /// If it could not be written.
    pub fn finish_in_memory(self, moments: Vec<Moment>) -> (Ledger, Option<Replay>) {
        let (heading, code) = (self.heading(), self.stacks.code());
        self.finish_as(heading, |_| code, moments, true)
    }

    /// The same of a session that is told so, with names for its addresses that are written down or not.
    ///
    /// # Panics
    /// If it could not be written.
    pub fn finish_as(
        mut self,
        mut heading: Heading,
        code: impl FnOnce(&[u64]) -> Code,
        moments: Vec<Moment>,
        has_names: bool,
    ) -> (Ledger, Option<Replay>) {
        self.session_writer.snapshot(self.now, &mut self.profile, &self.stacks);
        let Self { profile, session_writer, stacks, now, .. } = self;
        heading.births = profile.births(now, 9);
        heading.page_births = profile.page_births(now, 9);
        heading.kernel = profile.kernel_calls(9);
        let ended = Ended::of(profile.into_sheet(), &stacks);
        let code = code(ended.addresses());
        heading.holes = session_writer.holes().to_vec();
        session_writer.finish(&heading, has_names.then_some(&code)).unwrap();
        ended.ledger(Context { heading, code, threads: threads(), moments }, now)
    }

    /// What is said of it at its end.
    fn heading(&self) -> Heading {
        let outcome = Outcome::Detached.into();
        let about = About { pid: 7, every: self.every, outcome, ..About::default() };
        let about = About { lasted_ms: self.now * 1000 / second(), ..about };
        Heading { about, is_final: true, ..Heading::default() }
    }
}

/// Those of any such session.
fn threads() -> Vec<Thread> {
    vec![Thread::default(), Thread { tid: 9, name: "worker".to_owned() }]
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
            session.session_writer.hurry(session.now);
        }
        for block in 0..4 {
            session.allocate(if block == 0 { 5 } else { 0 }, number * 10 + block, 100 + number);
        }
        if number > 0 {
            session.free((number - 1) * 10);
        }
        session.session_writer.moment(Moment { at_ms: number * 1000, ..Moment::default() });
        session.session_writer.mark(Mark { at_ms: number * 1000, why: format!("second {number}") });
        session.keep_up();
    }
    session.now = 10 * second();
    session.finish();
}

/// The sum of blocks, which that of the rows must be.
///
/// # Panics
/// If it is not.
pub fn blocks(ledger: &Ledger, metric: Metric) -> f64 {
    let rows = ledger.rows.iter().map(|row| row.measure(metric).count.value);
    let sum: f64 = rows.sum();
    assert_eq!(sum, ledger.total.measure(metric).count.value, "rows are all there is");
    sum
}

/// A part of the time, in seconds.
pub fn window(from: u64, to: u64) -> Option<std::ops::Range<Duration>> {
    Some(Duration::from_secs(from)..Duration::from_secs(to))
}
