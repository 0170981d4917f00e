//! From the stream of a session to its profile, while the session lasts: in a thread of its own,
//! since rings fill within milliseconds while other things take longer.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use heapattach_abi::stacks::STACKS;
use heapattach_injector::watch::{Call, Loads, Lost, Records, RequestHooks};
use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    memory::Memory,
    stack::Stack,
};

use crate::watch::{
    announced::AnnouncedBlocks,
    notes::{Note, SharedNotes},
    own_mapped::OwnMapped,
    pace::{Activity, SELDOM, pause},
    spoken::Spoken,
};
use heapattach_ledger::{Loss, Moment, Thread};
use heapattach_profile::{
    Births, Exact, Facts, Flow, KernelCalls, Limits, Oddities, Profile, Tick, Writers,
    clock::Clock, ticks,
};
use heapattach_recording::{Ended, MOMENTS, SessionWriter, StackSource};
use heapattach_symbols::{Known, python::known_of_session};

/// Rows of which it is told when their blocks in use were allocated: those that have most.
const ROWS: usize = 512;

/// Events that are taken in together.
const BATCH: usize = 4096;

/// Between two looks at rings that were nearly empty.
const PAUSE: Duration = Duration::from_micros(500);
/// The same for samples, which are few.
const PAUSE_OF_SAMPLES: Duration = Duration::from_millis(10);

/// So many of them at once are more than usual.
const BUSY: u64 = 256;

/// New Python names are on disk after so long, or later if many come.
const PYTHON_PAUSE: Duration = Duration::from_secs(1);

/// Hooks that one call stack is told apart by; a stack leads to one hook, unless the target writes
/// false records.
const HOOKS_OF_A_STACK: usize = 64;

/// Calls of one hook from one stack.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The hook.
    pub hook: usize,
    /// Calls.
    pub calls: u64,
    /// Bytes they requested.
    pub bytes: u64,
}

/// The records of a session and what is made of them.
#[derive(Debug)]
pub struct Recorder {
    /// Where they come from.
    pub records: Records,
    intake: Intake,
    is_exact: bool,
    /// The threads, and how many changes of them are known.
    threads: Vec<Thread>,
    thread_changes: u64,
    /// In the order of time.
    moments: Vec<Moment>,
    /// When the sums were complete, in ticks.
    until: u64,
    /// What found no room in rings when that was last asked for.
    lost: Lost,
    /// The modules, and how many Python frames are written down with them, and when.
    modules: Vec<Known>,
    python: usize,
    python_at: u64,
    /// Whether names are written down.
    has_names: bool,
    own_mapped: OwnMapped,
    activity: Activity,
}

/// What is left of a session when all records are in, for its result.
#[derive(Debug)]
pub struct Left {
    /// The sums.
    pub ended: Ended,
    /// When the blocks in use were allocated, by row.
    pub births: Vec<(u32, Births)>,
    /// The same of pages that are still mapped.
    pub page_births: Vec<(u32, Births)>,
    /// What was asked of the kernel, by row.
    pub kernel: Vec<(u32, KernelCalls)>,
    /// When they were complete, in ticks.
    pub until: u64,
    /// What writes the session down; it has everything but names and the end.
    pub session_writer: Option<SessionWriter>,
    /// The threads; rows name them by number.
    pub threads: Vec<Thread>,
    /// In the order of time.
    pub moments: Vec<Moment>,
}

/// The stacks of a session, as a recording asks for them.
struct Seen<'a>(&'a Records);

/// Where events go.
#[derive(Debug)]
struct Intake {
    clock: Clock,
    session_writer: Option<SessionWriter>,
    writers: Writers,
    profile: Profile,
    /// By the number of the stack, where every call is told.
    callers: Vec<Vec<Caller>>,
    batch: Vec<Event>,
    /// What the program says of its blocks.
    spoken: Spoken,
    /// Blocks of its own that it announces.
    announced: AnnouncedBlocks,
    /// Events so far, and the stamp of the last.
    taken: u64,
    stamp: u64,
}

impl StackSource for Seen<'_> {
    fn stack(&self, id: StackId) -> Option<&Stack> {
        self.0.stack(id)
    }
}

impl Intake {
    fn take(&mut self, event: Event, call: Call, is_exact: bool, shared_notes: &SharedNotes) {
        let ring = usize::from(event.origin.ring);
        if ring != 0 && self.writers.get(ring) == Some(&0) {
            self.writers[ring] = shared_notes.ring_owners.announce(ring);
        }
        self.taken += 1;
        self.stamp = event.stamp;
        let writer = self.writers.get(ring).copied().unwrap_or(0);
        let now = || self.clock.ticks();
        if self.spoken.hear(&event, writer) || self.announced.hear(&event, call, writer, now) {
            return;
        }
        if is_exact {
            self.count(&event, call);
        }
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
        if let Some(session_writer) = &mut self.session_writer {
            session_writer.set_now(now);
        }
        self.profile.set_writers(&self.writers);
        self.profile.apply(&self.batch, Tick::of(now), &mut self.session_writer);
        self.batch.clear();
    }

    fn count(&mut self, event: &Event, call: Call) {
        let bytes = match event.what {
            What::Allocated { size, .. } => size,
            What::Mapped { length, .. }
            | What::Unmapped { length, .. }
            | What::Discarded { length, .. } => length,
            What::Freed { .. } | What::Restored { .. } | What::Broke { .. } => 0,
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

fn native(records: &Records, id: StackId) -> Option<&Stack> {
    let stack = records.stack(id)?;
    stack.native.map_or(Some(stack), |native| records.stack(native))
}

impl Recorder {
    /// For a session that records everything, or samples; and what writes it down.
    pub fn new(
        records: Records,
        is_exact: bool,
        clock: Clock,
        session_writer: Option<SessionWriter>,
        has_names: bool,
    ) -> Self {
        Self {
            records,
            intake: Intake {
                clock,
                session_writer,
                writers: Writers::default(),
                profile: Profile::new(Limits::default(), Clock::temporary()),
                callers: Vec::new(),
                batch: Vec::new(),
                spoken: Spoken::default(),
                announced: AnnouncedBlocks::default(),
                taken: 0,
                stamp: 0,
            },
            is_exact,
            threads: Vec::new(),
            thread_changes: 0,
            moments: Vec::new(),
            until: 0,
            lost: Lost::default(),
            modules: Vec::new(),
            python: 0,
            python_at: 0,
            has_names,
            own_mapped: OwnMapped::default(),
            activity: Activity::default(),
        }
    }

    /// By what it is known, in a quiet time, that modules were loaded.
    pub fn know_loads(&mut self, loads: Option<Loads>) {
        self.activity = Activity::new(loads);
    }

    /// By what hooks the program says what it allocates itself.
    pub fn hear_by(&mut self, hooks: Option<RequestHooks>) {
        self.intake.announced.hear_by(hooks);
    }

    /// Where code of Go is, in a program that has a C library, too.
    pub fn know_go(&mut self, code: Option<std::ops::Range<u64>>) {
        self.own_mapped.know_go(code);
    }

    /// Where the heap of brk ends before anything happens.
    pub fn know_heap_end(&mut self, end: Option<u64>) {
        self.intake.profile.know_heap_end(end);
    }

    /// These were unmapped by no hooked function; answers how many bytes that are.
    pub fn unmap(&mut self, ranges: Vec<Range<u64>>) -> u64 {
        let mut bytes = 0_u64;
        for Range { start, end } in ranges {
            let length = end.saturating_sub(start);
            bytes = bytes.saturating_add(length);
            // Nothing comes after it that could undo it.
            let origin = Origin { is_final: true, ..Origin::default() };
            let (at, stack) = (RemoteAddr::new(start), StackId(0));
            let what = What::Unmapped { at, length, stack };
            self.intake.batch.push(Event { stamp: u64::MAX, origin, what });
        }
        self.intake.settle();
        bytes
    }

    /// Takes in what happens until `is_over`, and what is left then. From then on it touches no
    /// disk, since the target may have to wait for it.
    pub fn follow(
        mut self,
        memory: &Memory,
        shared_notes: &SharedNotes,
        is_over: &AtomicBool,
    ) -> Self {
        self.take_until(memory, shared_notes, is_over);
        let Self { records, intake, is_exact, .. } = &mut self;
        let _ =
            records.finish(memory, |event, call| intake.take(event, call, *is_exact, shared_notes));
        intake.settle();
        self
    }

    /// The same where no thread of the target runs once it `is_over`, and some may run on later.
    pub fn follow_to_moment(
        mut self,
        memory: &Memory,
        shared_notes: &SharedNotes,
        is_over: &AtomicBool,
    ) -> Self {
        self.take_until(memory, shared_notes, is_over);
        let Self { records, intake, is_exact, .. } = &mut self;
        let _ =
            records.settle(memory, |event, call| intake.take(event, call, *is_exact, shared_notes));
        intake.settle();
        self
    }

    fn take_until(&mut self, memory: &Memory, shared_notes: &SharedNotes, is_over: &AtomicBool) {
        let mut kept_up = Instant::now();
        let mut active = kept_up;
        while !is_over.load(Relaxed) {
            let before = self.intake.taken;
            let is_asked = shared_notes.recorded.hear();
            self.intake.writers = shared_notes.ring_owners.writers();
            let Self { records, intake, is_exact, .. } = self;
            // The end of the target is noticed elsewhere.
            let _ = records
                .drain(memory, |event, call| intake.take(event, call, *is_exact, shared_notes));
            intake.settle();
            shared_notes.recorded.note_stamp(intake.stamp);
            shared_notes.checks.store(intake.spoken.checks, Relaxed);
            shared_notes.checks_of_valgrind.store(intake.announced.checks, Relaxed);
            if is_asked {
                shared_notes.recorded.reply(&intake.profile);
            }
            let taken = intake.taken - before;
            if self.has_begun(memory, shared_notes, taken) {
                shared_notes.bell.ring();
                active = Instant::now();
            }
            // Else there is nothing new.
            let is_due = || shared_notes.has_any() || kept_up.elapsed() >= SELDOM;
            if taken > 0 || !shared_notes.bell.is_quiet() || is_due() {
                self.keep_up(shared_notes);
                kept_up = Instant::now();
                if shared_notes.bell.is_quiet() {
                    // Empty; a quiet time may last for days.
                    self.intake.batch.shrink_to_fit();
                }
            }
            if taken <= BATCH as u64 {
                // Mappings are all recorded, and may be many.
                let is_busy = self.is_exact || taken >= BUSY;
                let slots = self.records.slots();
                // At the end it is woken.
                thread::park_timeout(match is_busy {
                    _ if shared_notes.bell.is_quiet() => {
                        pause(self.is_exact, slots, active.elapsed())
                    }
                    true => PAUSE,
                    false => PAUSE_OF_SAMPLES,
                });
            }
        }
    }

    /// Whether something happens that is more than a quiet time has: a few calls without any record.
    fn has_begun(&mut self, memory: &Memory, shared_notes: &SharedNotes, taken: u64) -> bool {
        if taken > 0 || self.is_exact || !shared_notes.bell.is_quiet() {
            self.activity.forget();
            return taken > 0;
        }
        // The end of the target is noticed elsewhere.
        let counts = self.records.counts(memory).unwrap_or_default();
        self.activity.has_begun(&counts, shared_notes.bell.allows_few(), memory)
    }

    /// What is known at the end besides the records: how rarely was sampled, and how many blocks were
    /// allocated and bytes, as the hooks counted them.
    pub fn know(&mut self, every: u64, asked: [u64; 2]) {
        let [count, bytes] = asked;
        self.intake.profile.know(Facts { every, asked: Some(Exact { bytes, count }) });
    }

    /// Writes down how it ended. The target is detached by then: the disk may take its time.
    pub fn conclude(&mut self, shared_notes: &SharedNotes) {
        self.tell_pulse(shared_notes);
        self.write_notes(shared_notes, true);
        let Self { records, intake, .. } = self;
        self.until = intake.clock.ticks();
        if let Some(session_writer) = &mut intake.session_writer {
            session_writer.snapshot(self.until, &mut intake.profile, &Seen(records));
        }
    }

    /// What the result of the session is made of, after [`Self::conclude`]; all else is gone.
    pub fn leave(self) -> Left {
        let Self { records, intake, threads, moments, until, .. } = self;
        let Intake { session_writer, profile, .. } = intake;
        let births = profile.births(until, ROWS);
        let (page_births, kernel) = (profile.page_births(until, ROWS), profile.kernel_calls(ROWS));
        let ended = Ended::of(profile.into_sheet(), &Seen(&records));
        Left { ended, births, page_births, kernel, until, session_writer, threads, moments }
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
        native(&self.records, id)
    }

    /// Bytes that the program mapped itself, and still; and the most that it had in use at once together with
    /// blocks, at any look.
    pub fn own_mapped(&mut self) -> (u64, f64) {
        let Self { records, intake, own_mapped, modules, .. } = self;
        let sheet = intake.profile.sheet();
        let rows = sheet.rows.all();
        own_mapped.look(rows, modules, |row| native(records, row.stack));
        let live = own_mapped.live(rows);
        (live, own_mapped.most(sheet.heap().bytes(Flow::Live), live))
    }

    fn tell_pulse(&mut self, shared_notes: &SharedNotes) {
        let own = self.own_mapped();
        shared_notes.pulse.set(self.intake.profile.sheet(), own);
    }

    /// The pages that are mapped, ascending, each with the row of the stack that mapped it.
    pub fn live_ranges(&self) -> Vec<(Range<u64>, u32)> {
        self.profile().live_ranges().map(|(mapped, _)| (mapped.range, mapped.row.0)).collect()
    }

    fn keep_up(&mut self, shared_notes: &SharedNotes) {
        self.tell_pulse(shared_notes);
        self.write_notes(shared_notes, false);
        let Self { records, intake, .. } = self;
        if let Some(session_writer) = &mut intake.session_writer {
            let now = intake.clock.ticks();
            if records.is_behind() {
                session_writer.hurry(now);
            }
            session_writer.keep_up(now, &mut intake.profile, &Seen(records));
        }
    }

    fn write_notes(&mut self, shared_notes: &SharedNotes, is_last: bool) {
        let notes = shared_notes.take();
        for note in &notes {
            if let Note::Lost(lost) = note {
                self.lost = *lost;
            }
        }
        let loss = self.loss(self.lost);
        let is_marked = notes.iter().any(|note| matches!(note, Note::Mark(_)));
        let mut has_new_modules = false;
        for note in notes {
            match note {
                Note::Last(moment) if is_last => {
                    self.note_moment(shared_notes.pulse.complete(moment))
                }
                Note::Last(_) => shared_notes.leave(note),
                Note::Moment(moment) => self.note_moment(moment),
                Note::Mark(mark) => {
                    self.intake
                        .session_writer
                        .iter_mut()
                        .for_each(|session_writer| session_writer.mark(mark.clone()));
                }
                Note::Lost(_) => {}
                Note::Modules(known) => {
                    has_new_modules = true;
                    self.modules = known;
                }
            }
        }
        let new_threads = shared_notes.ring_owners.threads_unless(self.thread_changes);
        let has_new_threads = new_threads.is_some();
        if let Some((changes, all)) = new_threads {
            (self.thread_changes, self.threads) = (changes, all);
        }
        let Self { records, intake, threads, modules, .. } = self;
        let Some(session_writer) = &mut intake.session_writer else { return };
        if has_new_threads {
            session_writer.threads(threads);
        }
        session_writer.lost(loss);
        let frames = records.python_frames();
        let now = intake.clock.ticks();
        let is_due =
            is_last || is_marked || now.saturating_sub(self.python_at) >= ticks(PYTHON_PAUSE);
        if has_new_modules || (is_due && frames.len() > self.python) {
            (self.python, self.python_at) = (frames.len(), now);
            let all = modules.iter().cloned().chain(known_of_session(frames, self.has_names));
            session_writer.modules(&Vec::from_iter(all));
        }
        if is_marked {
            session_writer.settle_mark(intake.clock.ticks(), &mut intake.profile, &Seen(records));
        }
    }

    fn note_moment(&mut self, moment: Moment) {
        if let Some(session_writer) = &mut self.intake.session_writer {
            session_writer.moment(moment.clone());
        }
        if self.moments.len() < MOMENTS {
            self.moments.push(moment);
        }
    }

    /// What was made of them, by stack.
    pub fn profile(&self) -> &Profile {
        &self.intake.profile
    }

    /// What the program said of its blocks in between.
    pub fn spoken(&self) -> &Spoken {
        &self.intake.spoken
    }

    /// The blocks that it announced, of its own.
    pub fn announced(&self) -> &AnnouncedBlocks {
        &self.intake.announced
    }

    /// Who called a hook, where every call is told.
    pub fn callers_of(&self, hook: usize) -> impl Iterator<Item = (StackId, Caller)> {
        (0..).zip(&self.intake.callers).flat_map(move |(number, callers)| {
            let own = callers.iter().filter(move |caller| caller.hook == hook);
            own.map(move |caller| (StackId(number), *caller))
        })
    }
}

/// The number of a stack, or 0 for one that the payload has not assigned.
fn index(stack: StackId) -> usize {
    usize::try_from(stack.0).ok().filter(|&number| number <= STACKS).unwrap_or(0)
}
