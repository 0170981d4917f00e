//! Whether the heap grows while it is watched: blocks are counted by size, and what happens is written
//! down into memory of ours, as a session with `--flow` writes it into a file.

use heapattach_ledger::Ledger;
use std::time::{Duration, Instant};

use heapattach_injector::watch::Session;
use heapattach_verdict::{growth::Growth, summary};

use crate::watch::{heading, intake::Recorder, notes::SharedNotes, schedule::Schedule};
use heapattach_profile::clock::Clock;
use heapattach_recording::{Heading, Patience, SessionWriter, Store, WriteQueue};
use heapattach_report::Report;

use super::Inspection;

/// A shorter time says nothing: a process that begins grows, and so does one that is just asked for
/// something.
const SHORTEST: Duration = Duration::from_secs(5);
/// What is written down takes no more memory than this; then sums take the place of the oldest of it.
const MOST: u64 = 256 << 20;

/// Measures.
pub(super) struct GrowthMeasure<'a> {
    schedule: Schedule<'a>,
    store: Store,
    heading: Heading,
}

impl<'a> GrowthMeasure<'a> {
    /// Begins now; also returns the writer of what happens.
    pub(super) fn begin(
        inspection: &Inspection<'_>,
        session: &Session<'_>,
        report: &Report,
        shared_notes: &'a SharedNotes,
        clock: Clock,
    ) -> std::io::Result<(Self, SessionWriter)> {
        let store = Store::anonymous()?;
        let write_queue = WriteQueue::start(store.share()?.file, None, MOST, Patience::default())?;
        let process = &session.target().process;
        let mut heading = heading::heading(
            String::new(),
            &inspection.options.hooks.hide_frames,
            (report.pid, session.stream.interval),
            process,
        );
        heading.about.from_start = inspection.is_from_start;
        let mut session_writer = SessionWriter::new(write_queue, true);
        session_writer.heading(&heading);
        Ok((
            Self { schedule: Schedule::counting(shared_notes, clock), store, heading },
            session_writer,
        ))
    }

    /// When it is to look next.
    pub(super) fn next(&self) -> Instant {
        self.schedule.next()
    }

    /// Looks, if it is time.
    pub(super) fn look(&mut self, session: &Session<'_>) {
        // The marks are not shown: the user did not ask for any.
        let _ = self.schedule.look(session);
    }

    /// Looks for the last time.
    pub(super) fn end(&self, session: &Session<'_>) {
        self.schedule.end(session);
    }

    /// Takes in all that was measured; what is known of the session, and where it is written down.
    ///
    /// # Errors
    /// Why it says nothing.
    pub(super) fn conclude(
        mut self,
        recorder: &mut Recorder,
        counted: Duration,
    ) -> Result<(Heading, Store), String> {
        if counted < SHORTEST {
            let [had, needed] = [counted, SHORTEST].map(heapattach_text::quantity::time);
            return Err(format!("it was watched for {had}, and {needed} are needed"));
        }
        recorder.conclude(self.schedule.shared_notes());
        self.heading.about.lasted_ms = u64::try_from(counted.as_millis()).unwrap_or(u64::MAX);
        self.heading.is_final = true;
        Ok((self.heading, self.store))
    }
}

/// What is to be said of the growth, where the course of the ledger is known.
///
/// # Errors
/// Why there is nothing.
pub(super) fn growth(ledger: &Ledger) -> Result<Growth, String> {
    let growth = Growth::of(ledger, |stack| summary::place(ledger, stack));
    growth.ok_or_else(|| "blocks were not counted by size: that takes glibc's allocator".to_owned())
}
