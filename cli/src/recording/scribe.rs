//! Writes a session down while it lasts: beside the reader of the rings, and as fast.

use heapattach_injector::{
    event::StackId,
    stacks::{Stack, StackEnd},
};
use serde::Serialize;

use super::{
    block::Content,
    changes::{self, ENOUGH},
    heading::{Heading, Mark},
    rows::{self, ROWS},
    snapshot,
    tape::Tape,
};
use crate::{
    ledger::{Moment, Thread},
    naming::Code,
    profile::{Change, Journal, Profile, ticks},
    symbols::Known,
};
use std::{io, time::Duration};

/// What has happened is on disk after so long at the latest.
const FLUSH: Duration = Duration::from_secs(1);
/// JSON of one block, but for its last item.
const TEXT: usize = 4 << 20;
/// Modules that are kept.
const MODULES: usize = 1 << 14;

/// Where stacks are known by number.
pub trait StackSource {
    /// A stack that was seen.
    fn stack(&self, id: StackId) -> Option<&Stack>;
}

/// Writes a session down.
#[derive(Debug)]
pub struct Scribe {
    tape: Tape,
    /// `None` where only snapshots are wanted.
    changes: Option<changes::Encoder>,
    rows: rows::Encoder,
    rows_told: usize,
    /// By the number that the session has for a stack: one more than the file's.
    stacks: Vec<u64>,
    /// Those that are not written yet.
    moments: Vec<Moment>,
    flushed: u64,
}

impl Scribe {
    /// On this tape; `logs` says whether everything is kept that happens.
    pub fn new(tape: Tape, logs: bool) -> Self {
        let changes = logs.then(|| changes::Encoder::new(0));
        let (rows, stacks, moments) = Default::default();
        Self { tape, changes, rows, rows_told: 0, stacks, moments, flushed: 0 }
    }

    /// What the session is, as far as it is known by now.
    pub fn heading(&self, heading: &Heading) {
        self.put_json(Content::About, heading);
    }

    /// Where modules are.
    pub fn modules(&self, known: &[Known]) {
        self.put_json(Content::Modules, &known[..known.len().min(MODULES)]);
    }

    /// Who the threads are.
    pub fn threads(&self, threads: &[Thread]) {
        self.put_json(Content::Threads, threads);
    }

    /// Another moment.
    pub fn moment(&mut self, moment: Moment) {
        self.moments.push(moment);
    }

    /// A moment to be kept.
    pub fn mark(&self, mark: &Mark) {
        self.put_json(Content::Marks, &[mark]);
    }

    /// What follows happened at this time, in ticks.
    pub fn set_now(&mut self, now: u64) {
        if let Some(changes) = &mut self.changes {
            changes.set_now(now);
        }
    }

    /// Passes on what has come together, if that is much or long ago.
    pub fn keep_up(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        let is_due = now.saturating_sub(self.flushed) >= ticks(FLUSH);
        let is_much = self.changes.as_ref().is_some_and(|changes| changes.len() >= ENOUGH);
        if is_due || is_much {
            self.flush(now, profile, stacks);
        }
        if self.tape.is_full() && self.changes.is_some() {
            self.snapshot(now, profile, stacks);
            // It has to be written before it makes room.
            while self.tape.is_full() && !self.tape.has_failed() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // What was learned is gone with what happened.
            self.changes = Some(changes::Encoder::new(now));
        }
        if self.tape.is_crowded() {
            self.changes = None;
        }
    }

    /// Passes on what has come together.
    pub fn flush(&mut self, now: u64, profile: &Profile, stacks: &impl StackSource) {
        self.flushed = now;
        if !self.moments.is_empty() {
            self.put_json(Content::Moments, &self.moments);
            self.moments.clear();
        }
        self.tell_rows(profile, stacks);
        if let Some(changes) = self.changes.as_mut().filter(|changes| !changes.is_empty()) {
            self.tape.put(Content::Changes, changes.finish());
        }
    }

    /// Has everything until now on disk, for somebody who wants to look at it.
    pub fn settle_mark(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        if self.changes.is_some() {
            self.flush(now, profile, stacks);
        } else {
            self.snapshot(now, profile, stacks);
        }
    }

    /// All sums as they are now.
    pub fn snapshot(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        self.flush(now, profile, stacks);
        for piece in snapshot::encode(now, &profile.snapshot()) {
            self.tape.put(Content::Snapshot, piece);
        }
    }

    /// The end: names, unless they are to be left out, and what is known now.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(self, heading: &Heading, code: Option<&Code>) -> io::Result<u64> {
        if let Some(code) = code {
            self.put_list("modules", &code.modules);
            self.put_list("functions", &code.functions);
            self.put_list("locations", &code.locations);
        }
        self.heading(heading);
        self.tape.finish()
    }

    /// Whose number is whose, of rows that are new.
    fn tell_rows(&mut self, profile: &Profile, stacks: &impl StackSource) {
        let all = profile.sheet().rows.all();
        for row in all.iter().skip(self.rows_told) {
            let number = usize::try_from(row.stack.0).unwrap_or(0);
            if self.stacks.len() <= number {
                self.stacks.resize(number + 1, 0);
            }
            match self.stacks[number] {
                0 => {
                    let stack = stacks.stack(row.stack);
                    let frames: Vec<u64> =
                        stack.iter().flat_map(|s| &s.frames).map(|at| at.get()).collect();
                    let end = stack.map_or(StackEnd::Lost, |stack| stack.end);
                    let told = self.rows.new_stack(row.thread, &frames, end_number(end));
                    self.stacks[number] = told + 1;
                }
                known => self.rows.known(row.thread, known - 1),
            }
            if self.rows.len() >= ROWS {
                self.tape.put(Content::Rows, self.rows.finish());
            }
        }
        self.rows_told = all.len();
        if self.rows.len() > 0 {
            self.tape.put(Content::Rows, self.rows.finish());
        }
    }

    fn put_json<T: Serialize + ?Sized>(&self, content: Content, what: &T) {
        if let Ok(text) = serde_json::to_vec(what) {
            self.tape.put(content, text);
        }
    }

    /// A list under its name, in as many blocks as it takes.
    fn put_list<T: Serialize>(&self, name: &str, items: &[T]) {
        let begin = || format!("{{\"{name}\":[").into_bytes();
        let mut text = begin();
        for item in items {
            if text.last() != Some(&b'[') {
                text.push(b',');
            }
            // A failure would leave a comma too much; text and numbers do not fail.
            let _ = serde_json::to_writer(&mut text, item);
            if text.len() > TEXT {
                text.extend(b"]}");
                self.tape.put(Content::Names, std::mem::replace(&mut text, begin()));
            }
        }
        text.extend(b"]}");
        self.tape.put(Content::Names, text);
    }
}

impl Journal for Scribe {
    fn note(&mut self, change: &Change) {
        if let Some(changes) = &mut self.changes {
            changes.note(change);
        }
    }
}

/// The number that a file has for an end.
fn end_number(end: StackEnd) -> u8 {
    match end {
        StackEnd::Lost => 0,
        StackEnd::Outermost => 1,
        StackEnd::Depth => 2,
        StackEnd::Unbounded => 3,
        StackEnd::NoTable => 4,
        StackEnd::NoRule => 5,
        StackEnd::Implausible => 6,
    }
}
