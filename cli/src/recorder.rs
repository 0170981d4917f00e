//! From the stream of a session to its profile, while the session lasts: in a thread of its own,
//! since rings fill within milliseconds while other things take longer.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_abi::stacks::STACKS;
use heapattach_injector::{
    counts::Lost,
    event::{Event, StackId, What},
    memory::Memory,
    ring::Call,
    stacks::Stack,
    stream::Records,
};

use crate::{
    clock::Clock,
    desk::{Desk, Note},
    ledger::Loss,
    profile::{Change, Journal, Limits, Oddities, Profile, Tick, Writers, ticks},
    recording::{Scribe, StackSource},
    symbols::{Known, python::known_of_session},
};

/// Events that are taken in together.
const BATCH: usize = 4096;

/// Between two looks at rings that were nearly empty.
const PAUSE: Duration = Duration::from_micros(500);
/// The same for samples, which are few.
const PAUSE_OF_SAMPLES: Duration = Duration::from_millis(10);

/// New Python names are on disk after so long, or later if many come.
const PYTHON_PAUSE: Duration = Duration::from_secs(1);

/// Hooks that one call stack is told apart by; a stack leads to one hook, if nobody lies.
const HOOKS_OF_A_STACK: usize = 64;

/// Calls of one hook from one stack.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The hook.
    pub hook: usize,
    /// Calls.
    pub calls: u64,
    /// Bytes they asked for.
    pub bytes: u64,
}

/// The records of a session and what is made of them.
#[derive(Debug)]
pub struct Recorder {
    /// Where they come from.
    pub records: Records,
    intake: Intake,
    is_exact: bool,
    /// How many changes of the threads are written down.
    threads: u64,
    /// What found no room in rings when that was last asked for.
    lost: Lost,
    /// The modules, and how many Python frames are written down with them, and when.
    modules: Vec<Known>,
    python: usize,
    python_at: u64,
    /// Whether names are written down.
    has_names: bool,
}

/// Where events go.
#[derive(Debug)]
struct Intake {
    clock: Clock,
    scribe: Option<Scribe>,
    writers: Writers,
    profile: Profile,
    /// By the number of the stack, where every call is told.
    callers: Vec<Vec<Caller>>,
    batch: Vec<Event>,
    /// Events so far.
    taken: u64,
}

impl Journal for Option<Scribe> {
    fn note(&mut self, change: &Change) {
        if let Some(scribe) = self {
            scribe.note(change);
        }
    }
}

impl StackSource for Records {
    fn stack(&self, id: StackId) -> Option<&Stack> {
        Self::stack(self, id)
    }
}

impl Intake {
    fn take(&mut self, event: Event, call: Call, is_exact: bool, desk: &Desk) {
        let ring = usize::from(event.origin.ring);
        if ring != 0 && self.writers.get(ring) == Some(&0) {
            self.writers[ring] = desk.roster.announce(ring);
        }
        if is_exact {
            self.count(&event, call);
        }
        self.taken += 1;
        self.batch.push(event);
        if self.batch.len() == BATCH {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let now = self.clock.ticks();
        if let Some(scribe) = &mut self.scribe {
            scribe.set_now(now);
        }
        self.profile.set_writers(&self.writers);
        self.profile.apply(&self.batch, Tick::of(now), &mut self.scribe);
        self.batch.clear();
    }

    fn count(&mut self, event: &Event, call: Call) {
        let bytes = match event.what {
            What::Allocated { size, .. } => size,
            What::Mapped { length, .. } | What::Unmapped { length, .. } => length,
            What::Freed { .. } | What::Restored { .. } => 0,
        };
        let number = index(call.stack);
        if self.callers.len() <= number {
            self.callers.resize(number + 1, Vec::new());
        }
        let callers = &mut self.callers[number];
        let known = callers.iter().position(|caller| caller.hook == call.hook);
        let at = known.unwrap_or_else(|| {
            if callers.len() < HOOKS_OF_A_STACK {
                callers.push(Caller { hook: call.hook, calls: 0, bytes: 0 });
            }
            callers.len() - 1
        });
        let caller = &mut callers[at];
        caller.calls = caller.calls.saturating_add(u64::from(!event.origin.continues));
        caller.bytes = caller.bytes.saturating_add(bytes);
    }
}

impl Recorder {
    /// For a session that records everything, or samples; and what writes it down.
    pub fn new(
        records: Records,
        is_exact: bool,
        clock: Clock,
        scribe: Option<Scribe>,
        has_names: bool,
    ) -> Self {
        Self {
            records,
            intake: Intake {
                clock,
                scribe,
                writers: Writers::default(),
                profile: Profile::new(Limits::default(), Clock::temporary()),
                callers: Vec::new(),
                batch: Vec::with_capacity(BATCH),
                taken: 0,
            },
            is_exact,
            threads: 0,
            lost: Lost::default(),
            modules: Vec::new(),
            python: 0,
            python_at: 0,
            has_names,
        }
    }

    /// Takes in what happens until `is_over`, and what is left then. From then on it touches no
    /// disk, since the target may have to wait for it.
    pub fn follow(mut self, memory: &Memory, desk: &Desk, is_over: &AtomicBool) -> Self {
        let pause = if self.is_exact { PAUSE } else { PAUSE_OF_SAMPLES };
        while !is_over.load(Relaxed) {
            let before = self.intake.taken;
            self.intake.writers = desk.roster.writers();
            let Self { records, intake, is_exact, .. } = &mut self;
            // The end of the target is noticed elsewhere.
            let _ = records.drain(memory, |event, call| intake.take(event, call, *is_exact, desk));
            intake.settle();
            let taken = intake.taken - before;
            self.keep_up(desk);
            if taken <= BATCH as u64 {
                thread::sleep(pause);
            }
        }
        let Self { records, intake, is_exact, .. } = &mut self;
        let _ = records.finish(memory, |event, call| intake.take(event, call, *is_exact, desk));
        intake.settle();
        self
    }

    /// Writes down how it ended. Nobody is attached any more: the disk may take its time.
    pub fn conclude(&mut self, desk: &Desk) {
        desk.pulse.set(self.intake.profile.sheet());
        self.write_notes(desk, true);
        let Self { records, intake, .. } = self;
        let now = intake.clock.ticks();
        if let Some(scribe) = &mut intake.scribe {
            scribe.snapshot(now, &mut intake.profile, records);
        }
    }

    /// What is missing, of which this much found no room in rings.
    pub fn loss(&self, lost: Lost) -> Loss {
        let Oddities { missed_frees, blocks_beyond_limit, .. } = self.profile().oddities();
        Loss {
            blocks: lost.blocks,
            frees: lost.frees,
            samples: lost.samples,
            stacks: lost.stacks,
            beyond_limit: blocks_beyond_limit,
            torn: self.records.torn(),
            missed_frees,
        }
    }

    /// A stack as native code has it: without Python frames.
    pub fn native_stack(&self, id: StackId) -> Option<&Stack> {
        let stack = self.records.stack(id)?;
        stack.native.map_or(Some(stack), |native| self.records.stack(native))
    }

    /// The addresses of all stacks.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + Clone {
        let rows = self.profile().sheet().rows.all().iter();
        let stacks = rows.filter_map(|row| self.records.stack(row.stack));
        stacks.flat_map(|stack| stack.frames.iter().map(|at| at.get()))
    }

    /// What writes the session down; it has everything but names and the end.
    pub fn take_scribe(&mut self) -> Option<Scribe> {
        self.intake.scribe.take()
    }

    fn keep_up(&mut self, desk: &Desk) {
        desk.pulse.set(self.intake.profile.sheet());
        self.write_notes(desk, false);
        let Self { records, intake, .. } = self;
        if let Some(scribe) = &mut intake.scribe {
            let now = intake.clock.ticks();
            if records.is_behind() {
                scribe.hurry(now);
            }
            scribe.keep_up(now, &mut intake.profile, records);
        }
    }

    fn write_notes(&mut self, desk: &Desk, is_last: bool) {
        let notes = desk.take();
        for note in &notes {
            if let Note::Lost(lost) = note {
                self.lost = *lost;
            }
        }
        let loss = self.loss(self.lost);
        let Self { records, intake, threads, modules, .. } = self;
        let mut has_new_modules = false;
        let Some(scribe) = &mut intake.scribe else { return };
        let is_marked = notes.iter().any(|note| matches!(note, Note::Mark(_)));
        for note in notes {
            match note {
                Note::Last(moment) if is_last => scribe.moment(desk.pulse.complete(moment)),
                Note::Last(_) => desk.leave(note),
                Note::Moment(moment) => scribe.moment(moment),
                Note::Mark(mark) => scribe.mark(mark),
                Note::Lost(_) => {}
                Note::Modules(known) => {
                    has_new_modules = true;
                    *modules = known;
                }
            }
        }
        if let Some((changes, all)) = desk.roster.threads_unless(*threads) {
            *threads = changes;
            scribe.threads(&all);
        }
        scribe.lost(loss);
        let frames = records.python_frames();
        let now = intake.clock.ticks();
        let is_due =
            is_last || is_marked || now.saturating_sub(self.python_at) >= ticks(PYTHON_PAUSE);
        if has_new_modules || (is_due && frames.len() > self.python) {
            (self.python, self.python_at) = (frames.len(), now);
            let all = modules.iter().cloned().chain(known_of_session(frames, self.has_names));
            scribe.modules(&Vec::from_iter(all));
        }
        if is_marked {
            scribe.settle_mark(intake.clock.ticks(), &mut intake.profile, records);
        }
    }

    /// What was made of them, by stack.
    pub fn profile(&self) -> &Profile {
        &self.intake.profile
    }

    /// Who called a hook, where every call is told.
    pub fn callers_of(&self, hook: usize) -> impl Iterator<Item = (StackId, Caller)> {
        (0..).zip(&self.intake.callers).flat_map(move |(number, callers)| {
            let own = callers.iter().filter(move |caller| caller.hook == hook);
            own.map(move |caller| (StackId(number), *caller))
        })
    }
}

/// The number of a stack, or 0 for one that nobody of ours has handed out.
fn index(stack: StackId) -> usize {
    usize::try_from(stack.0).ok().filter(|&number| number <= STACKS).unwrap_or(0)
}
