//! Looks, while a session lasts, whether it is time for something to be written down: a moment, a
//! mark because of the time, growth or a new peak, the names of threads.

use std::time::{Duration, Instant};

use heapattach_abi::flow;
use heapattach_injector::watch::Session;

use crate::watch::{
    memory_course::{Timeline, with_memory},
    notes::{Note, SharedNotes},
    options::WatchOptions,
    pace::{LATER, SELDOM},
};
use heapattach_ledger::{Mark, Moment};
use heapattach_profile::clock::Clock;
use heapattach_text::quantity;

/// How often the names of threads that are known are asked for again.
const NAMES: Duration = Duration::from_secs(1);
/// A peak is a new one if it is higher than the last by this.
const HIGHER: f64 = 1.1;
/// And by so many bytes.
const HIGHER_BYTES: f64 = 65_536.0;
/// After so many moments of a quiet time, a minute, they come more rarely.
const RESTS: u32 = 30;
/// Counts by size are told again when so many parts of the time have gone by once more.
const PARTS: u64 = 128;

/// Knows what is due.
#[derive(Debug)]
pub struct Schedule<'a> {
    shared_notes: &'a SharedNotes,
    clock: Clock,
    timeline: Timeline,
    next_names: Instant,
    /// When to mark a moment, and so often.
    next_mark: Option<(Instant, Duration)>,
    /// Whether blocks are counted by size, and when they were told last.
    counts: bool,
    counted_ms: u64,
    growth: Option<f64>,
    on_peak: bool,
    /// A moment is marked each time so much was allocated, and when the next is due.
    allocated: Option<(u64, u64)>,
    /// What was live, what of the program's own was mapped, and the peak, when a moment was marked because of them.
    live: f64,
    own: f64,
    peak: f64,
    /// Moments of a quiet time that goes on.
    rests: u32,
}

impl<'a> Schedule<'a> {
    /// Of a session that begins now.
    pub fn new(shared_notes: &'a SharedNotes, clock: Clock, options: &WatchOptions) -> Self {
        let (counts, record) = (options.flow, &options.record);
        #[allow(clippy::cast_precision_loss)]
        let growth = record.mark_on_growth.map(|bytes| bytes as f64);
        let next_mark = record.mark_every.map(|period| (Instant::now() + period, period));
        let on_peak = record.mark_on_peak;
        let allocated = record.mark_every_allocated.map(|bytes| (bytes, bytes));
        Self {
            next_mark,
            counts,
            growth,
            on_peak,
            allocated,
            ..Self::counting(shared_notes, clock)
        }
    }

    /// Of one that is only asked for what comes and goes.
    pub fn counting(shared_notes: &'a SharedNotes, clock: Clock) -> Self {
        let now = Instant::now();
        Self {
            shared_notes,
            clock,
            timeline: Timeline::new(now),
            next_names: now,
            next_mark: None,
            counts: true,
            counted_ms: 0,
            growth: None,
            on_peak: false,
            allocated: None,
            live: 0.0,
            own: 0.0,
            peak: 0.0,
            rests: 0,
        }
    }

    /// Where it leaves its notes.
    pub fn shared_notes(&self) -> &'a SharedNotes {
        self.shared_notes
    }

    /// When something is due next, except for what depends on memory.
    pub fn next(&self) -> Instant {
        self.next_mark().into_iter().chain([self.timeline.next()]).min().unwrap_or(self.next_names)
    }

    /// Between two looks at everything of a target that rests.
    pub fn pause(&self) -> Duration {
        if self.rests < RESTS { SELDOM } else { LATER }
    }

    /// A quiet time is over: moments come as often as before.
    pub fn hurry(&mut self) {
        self.timeline.put(Instant::now());
        self.rests = 0;
    }

    /// When a moment is to be marked next.
    pub fn next_mark(&self) -> Option<Instant> {
        self.next_mark.map(|(next, _)| next)
    }

    /// Has written down what is due; answers the moments that were marked.
    pub fn look(&mut self, session: &Session<'_>) -> Vec<Mark> {
        let process = &session.target().process;
        let at_ms = self.at_ms();
        let moment = || self.shared_notes.pulse.complete(Moment { at_ms, ..Moment::default() });
        let rests = self.shared_notes.bell.is_quiet();
        if let Some(mut moment) = self.timeline.look(Instant::now(), process, rests, moment) {
            if at_ms >= self.counted_ms.saturating_add(self.counted_ms / PARTS) {
                self.counted_ms = at_ms;
                moment.flow = self.flow(session);
            }
            self.shared_notes.leave(Note::Moment(moment));
            if rests {
                self.rests = self.rests.saturating_add(1);
                self.timeline.put(Instant::now() + self.pause());
            }
        }
        let now = Instant::now();
        let mut marks = Vec::new();
        if let Some((next, period)) = &mut self.next_mark
            && now >= *next
        {
            // One that was slept over is not made up for.
            *next = (*next + *period).max(now);
            marks.push("it is time".to_owned());
        }
        let (live, peak) = (self.shared_notes.pulse.live(), self.shared_notes.pulse.peak());
        #[allow(clippy::cast_precision_loss)]
        let own = self.shared_notes.pulse.own_mapped() as f64;
        if self.growth.is_some_and(|growth| live + own >= self.live + self.own + growth) {
            // Whichever grew more is why.
            let is_mapped = own - self.own > live - self.live;
            (self.live, self.own) = (live, own);
            let what = if is_mapped { "mapped memory" } else { "memory in use" };
            marks.push(format!("{what} has grown"));
        }
        if self.on_peak && peak >= (self.peak * HIGHER).max(self.peak + HIGHER_BYTES) {
            self.peak = peak;
            marks.push("more is in use than ever before".to_owned());
        }
        marks.extend(self.look_at_allocated(session));
        marks.into_iter().map(|why| self.mark(why)).collect()
    }

    /// Whether so much was allocated again; told once, however often it happened since the last look.
    fn look_at_allocated(&mut self, session: &Session<'_>) -> Option<String> {
        let (step, due) = self.allocated.as_mut()?;
        let (_, bytes) = session.stream.counts(&session.target().memory).ok()?.totals();
        if bytes < *due {
            return None;
        }
        *due = (bytes - bytes % *step).saturating_add(*step);
        Some(format!("{} allocated by now", quantity::bytes(bytes)))
    }

    /// Milliseconds since counting began.
    pub fn at_ms(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Blocks by size, where they are counted, without sizes that the program never asked for.
    pub fn flow(&self, session: &Session<'_>) -> Option<Vec<[u64; 3]>> {
        if !self.counts {
            return None;
        }
        let memory = &session.target().memory;
        let sums = session.stream.flows(memory).ok()?;
        let sizes = session.stream.sizes(memory).ok()?;
        let used = (0..).zip(sums).filter(|(_, sum)| *sum != [0, 0]);
        let counted = used.map(|(class, [came, went])| [class, came, went]);
        let noted = (flow::CLASSES as u64..).zip(sizes).filter_map(|(number, word)| {
            let (least, greatest) = flow::sizes(word)?;
            Some([number, least | word & flow::HAS_HEAD, greatest])
        });
        Some(counted.chain(noted).collect())
    }

    /// Looks who the threads are.
    pub fn look_at_threads(&mut self, session: &Session<'_>) {
        let target = session.target();
        let now = Instant::now();
        let names = now >= self.next_names;
        if names {
            self.next_names = now + NAMES;
        }
        let writers = session.stream.writers(&target.memory);
        self.shared_notes.ring_owners.look(&target.process, &target.memory, &writers, names);
    }

    /// Marks this moment.
    pub fn mark(&self, why: String) -> Mark {
        let mark = Mark { at_ms: self.at_ms(), why };
        self.shared_notes.leave(Note::Mark(mark.clone()));
        mark
    }

    /// The last moment.
    pub fn end(&self, session: &Session<'_>) {
        let moment = Moment { at_ms: self.at_ms(), flow: self.flow(session), ..Moment::default() };
        self.shared_notes.leave(Note::Last(with_memory(&session.target().process, moment)));
    }
}
