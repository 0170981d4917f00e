//! Whether the heap grows while it is watched: blocks are counted by size, and what happens is written
//! down into memory of ours, as a session with `--flow` writes it into a file.

use std::time::{Duration, Instant};

use heapattach_injector::session::Session;

use crate::{
    check_report::CheckReport,
    clock::Clock,
    desk::{Desk, Note},
    growth::Growth,
    inscription,
    naming::Code,
    recorder::Recorder,
    recording::{Heading, Patience, Scribe, Store, Tape},
    report::Report,
    symbols::Symbols,
    view::place_of,
    watchman::Watchman,
};

use super::Inspection;

/// A shorter time says nothing: a process that begins grows, and so does one that is just asked for
/// something.
const SHORTEST: Duration = Duration::from_secs(5);
/// What is written down takes no more memory than this; then sums take the place of the oldest of it.
const MOST: u64 = 256 << 20;

/// Measures.
pub(super) struct Gauge<'a> {
    watchman: Watchman<'a>,
    store: Store,
    heading: Heading,
}

impl<'a> Gauge<'a> {
    /// Begins now; who writes down what happens comes along.
    pub(super) fn begin(
        inspection: &Inspection<'_>,
        session: &Session<'_>,
        report: &Report,
        desk: &'a Desk,
        clock: Clock,
    ) -> std::io::Result<(Self, Scribe)> {
        let store = Store::anonymous()?;
        let tape = Tape::start(store.share()?.file, None, MOST, Patience::default())?;
        let process = &session.target().process;
        let heading = inscription::heading(
            String::new(),
            &inspection.args.hooks.hide_frames,
            (report.pid, session.stream.interval),
            process,
        );
        let mut scribe = Scribe::new(tape, true);
        scribe.heading(&heading);
        desk.leave(Note::Modules(super::lock(&inspection.symbols).known()));
        Ok((Self { watchman: Watchman::counting(desk, clock), store, heading }, scribe))
    }

    /// When it is to look next.
    pub(super) fn next(&self) -> Instant {
        self.watchman.next()
    }

    /// Looks, if it is time.
    pub(super) fn look(&mut self, session: &Session<'_>) {
        // Nobody asked for marks.
        let _ = self.watchman.look(session);
    }

    /// Looks for the last time.
    pub(super) fn end(&self, session: &Session<'_>) {
        self.watchman.end(session);
    }

    /// Writes down what is to be said of the growth.
    pub(super) fn tell(
        self,
        recorder: &mut Recorder,
        counted: Duration,
        symbols: &mut Symbols,
        check: &mut CheckReport,
    ) {
        match self.growth(recorder, counted, symbols) {
            Ok(growth) => check.growth = Some(growth),
            Err(why) => check.why_no_growth = Some(why),
        }
    }

    fn growth(
        mut self,
        recorder: &mut Recorder,
        counted: Duration,
        symbols: &mut Symbols,
    ) -> Result<Growth, String> {
        if counted < SHORTEST {
            let [had, needed] = [counted, SHORTEST].map(crate::quantity::time);
            return Err(format!("it was watched for {had}, and {needed} are needed"));
        }
        recorder.conclude(self.watchman.desk());
        let scribe = recorder.take_scribe().ok_or("nothing was written down")?;
        self.heading.about.lasted_ms = u64::try_from(counted.as_millis()).unwrap_or(u64::MAX);
        self.heading.is_final = true;
        let code = Code::of(recorder.addresses(), symbols);
        scribe
            .finish(&self.heading, Some(&code))
            .map_err(|error| format!("what happened could not be written down: {error}"))?;
        let recording = self.store.read().ok_or("what was written down cannot be read")?;
        let ledger = recording.ledger(None);
        let growth = Growth::of(&ledger, |stack| place_of(&ledger, stack));
        growth.ok_or_else(|| {
            "blocks were not counted by size: that takes glibc's allocator".to_owned()
        })
    }
}
