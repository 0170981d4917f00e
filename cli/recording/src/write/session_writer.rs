//! Writes a session down while it lasts: beside the reader of the rings, and as fast.

use serde::Serialize;

use crate::Cut;
use crate::names::Code;
use crate::{
    format::{
        block::Content,
        coded_events,
        heading::Heading,
        rows::{self, ROWS},
        snapshot,
        stack_source::{Numbers, StackSource},
    },
    write::write_queue::{Haste, WriteQueue},
};
use heapattach_ledger::{Loss, Mark, Moment, Thread};
use heapattach_profile::{Change, Journal, Profile, micros, ticks};
use heapattach_symbols::Known;
use std::time::Duration;

/// What has happened is on disk after so long at the latest.
const FLUSH: Duration = Duration::from_secs(1);
/// What happens is told as it is for so long after it was too much to be foreseen in time.
const PLAIN: Duration = Duration::from_secs(1);
/// JSON of one block, except for its last item.
const TEXT: usize = 4 << 20;
/// Moments and marks that wait for a disk that takes nothing.
const NOTES: usize = 4096;
/// Times in which a disk took nothing, that are told apart.
const HOLES: usize = 64;
/// Modules that are kept.
const MODULES: usize = 1 << 14;

/// Writes a session down.
#[derive(Debug)]
pub struct SessionWriter {
    write_queue: WriteQueue,
    heading: Heading,
    /// Whether everything is kept that happens.
    logs: bool,
    /// `None` where only snapshots are wanted, or the disk does not keep up.
    changes: Option<coded_events::Encoder>,
    /// Since when the disk does not.
    hole: Option<u64>,
    /// What happens is told as it is until then.
    plain_until: u64,
    rows: rows::Encoder,
    rows_told: usize,
    /// Those that the file has for stacks.
    stacks: Numbers,
    waiting: Waiting,
    flushed: Option<u64>,
}

/// What is to be written next time.
#[derive(Debug, Default)]
struct Waiting {
    heading: bool,
    modules: Option<Vec<u8>>,
    threads: Option<Vec<u8>>,
    moments: Vec<Moment>,
    marks: Vec<Mark>,
}

impl SessionWriter {
    /// On this write_queue; `logs` says whether everything is kept that happens.
    pub fn new(write_queue: WriteQueue, logs: bool) -> Self {
        let changes = logs.then(|| coded_events::Encoder::new(0));
        let (heading, rows, stacks, waiting) = Default::default();
        Self {
            write_queue,
            heading,
            logs,
            changes,
            hole: None,
            plain_until: 0,
            rows,
            rows_told: 0,
            stacks,
            waiting,
            flushed: None,
        }
    }

    /// What the session is, as far as it is known by now.
    pub fn heading(&mut self, heading: &Heading) {
        self.heading = heading.clone();
        put_json(&self.write_queue, Content::About, heading);
    }

    /// What is missing by now; it is in the file as soon as it is more.
    pub fn lost(&mut self, loss: Loss) {
        if self.heading.about.loss != loss {
            self.heading.about.loss = loss;
            self.waiting.heading = true;
        }
    }

    /// Where modules are.
    pub fn modules(&mut self, known: &[Known]) {
        self.waiting.modules = serde_json::to_vec(&known[..known.len().min(MODULES)]).ok();
    }

    /// Who the threads are.
    pub fn threads(&mut self, threads: &[Thread]) {
        self.waiting.threads = serde_json::to_vec(threads).ok();
    }

    /// Another moment.
    pub fn moment(&mut self, moment: Moment) {
        if self.waiting.moments.len() < NOTES {
            self.waiting.moments.push(moment);
        }
    }

    /// A moment to be kept.
    pub fn mark(&mut self, mark: Mark) {
        if self.waiting.marks.len() < NOTES {
            self.waiting.marks.push(mark);
        }
    }

    /// For a user who will have no time to wait for the disk.
    pub fn haste(&self) -> Haste {
        self.write_queue.haste()
    }

    /// What follows happened at this time, in ticks.
    pub fn set_now(&mut self, now: u64) {
        if let Some(changes) = &mut self.changes {
            changes.set_now(now);
        }
    }

    /// More comes than is taken in: for some time size counts for less than speed.
    pub fn hurry(&mut self, now: u64) {
        self.plain_until = now.saturating_add(ticks(PLAIN));
    }

    /// Passes on what has come together, if that is much or long ago.
    pub fn keep_up(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        if self.hole.is_some() {
            if self.write_queue.is_idle() {
                self.go_on(now, profile, stacks);
            }
            return;
        }
        let is_due = self.flushed.is_none_or(|at| now.saturating_sub(at) >= ticks(FLUSH));
        let is_plain = now < self.plain_until;
        let is_much = |changes: &coded_events::Encoder| {
            changes.is_much() || changes.is_plain() != is_plain && !changes.is_empty()
        };
        if is_due || self.changes.as_ref().is_some_and(is_much) {
            self.flush(now, profile, stacks);
        }
        if let Some(changes) = self.changes.as_mut().filter(|all| all.is_plain() != is_plain) {
            changes.set_plain(is_plain);
        }
        if self.write_queue.is_full() && self.changes.is_some() {
            self.snapshot(now, profile, stacks);
            // It has to be written before it makes room.
            if self.write_queue.make_room() {
                // What was learned is gone with what happened.
                self.changes = Some(coded_events::Encoder::new(now));
            } else {
                self.fall_behind(now);
            }
        }
        if self.write_queue.is_crowded() {
            self.changes = None;
        }
    }

    /// Passes on what has come together.
    pub fn flush(&mut self, now: u64, profile: &Profile, stacks: &impl StackSource) {
        self.flushed = Some(now);
        let mut keeps_up = self.put_notes();
        keeps_up &= self.tell_rows(profile, stacks);
        if let Some(changes) = self.changes.as_mut().filter(|changes| !changes.is_empty()) {
            keeps_up &= self.write_queue.put(Content::Changes, changes.finish());
        }
        if !keeps_up {
            self.fall_behind(now);
        }
    }

    /// Has everything until now on disk, for a user who wants to look at it.
    pub fn settle_mark(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        if self.hole.is_some() {
            return;
        }
        if self.changes.is_some() {
            self.flush(now, profile, stacks);
        } else {
            self.snapshot(now, profile, stacks);
        }
    }

    /// All sums as they are now.
    pub fn snapshot(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        self.flush(now, profile, stacks);
        let pieces = snapshot::encode(now, &profile.snapshot());
        let mut keeps_up = true;
        for piece in pieces {
            keeps_up &= self.write_queue.put(Content::Snapshot, piece);
        }
        if !keeps_up {
            self.fall_behind(now);
        }
    }

    /// The end: names, unless they are to be left out, and what is known now.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self, heading: &Heading, code: Option<&Code>) -> Result<u64, Cut> {
        if let Some(code) = code {
            self.put_list("modules", &code.modules);
            self.put_list("functions", &code.functions);
            self.put_list("locations", &code.locations);
        }
        let holes = std::mem::take(&mut self.heading.holes);
        self.heading(&Heading { holes, ..heading.clone() });
        self.write_queue.finish()
    }

    /// When the disk took nothing so far, as [`Heading::holes`].
    pub fn holes(&self) -> &[[u64; 2]] {
        &self.heading.holes
    }

    /// Whether what happens is being kept.
    #[cfg(test)]
    pub fn keeps_up(&self) -> bool {
        self.hole.is_none()
    }

    /// Whether the next snapshot takes the place of what happened.
    #[cfg(test)]
    pub fn is_full(&self) -> bool {
        self.write_queue.is_full()
    }

    /// What happens from now on is not kept, except for sums.
    fn fall_behind(&mut self, now: u64) {
        self.hole.get_or_insert(now);
        self.changes = None;
    }

    /// The disk takes something again: what had happened meanwhile is told by its sums.
    fn go_on(&mut self, now: u64, profile: &mut Profile, stacks: &impl StackSource) {
        let Some(since) = self.hole.take() else { return };
        let hole = [since, now].map(|at| micros(at) / 1000);
        if self.logs {
            let holes = &mut self.heading.holes;
            let is_many = holes.len() >= HOLES;
            match holes.last_mut().filter(|_| is_many) {
                Some(last) => last[1] = hole[1],
                None => holes.push(hole),
            }
            self.waiting.heading = true;
        }
        self.snapshot(now, profile, stacks);
        if self.hole.is_none() && self.logs && !self.write_queue.is_crowded() {
            self.changes = Some(coded_events::Encoder::new(now));
        }
    }

    /// Answers whether the disk keeps up.
    fn put_notes(&mut self) -> bool {
        let Self { write_queue, waiting, heading, .. } = self;
        let mut keeps_up = true;
        if std::mem::take(&mut waiting.heading) {
            keeps_up &= put_json(write_queue, Content::About, heading);
        }
        let texts = [
            (Content::Modules, waiting.modules.take()),
            (Content::Threads, waiting.threads.take()),
        ];
        for (content, text) in texts {
            keeps_up &= text.is_none_or(|text| write_queue.put(content, text));
        }
        if !waiting.moments.is_empty() {
            keeps_up &=
                put_json(write_queue, Content::Moments, &std::mem::take(&mut waiting.moments));
        }
        if !waiting.marks.is_empty() {
            keeps_up &= put_json(write_queue, Content::Marks, &std::mem::take(&mut waiting.marks));
        }
        keeps_up
    }

    /// Whose number is whose, of rows that are new.
    /// Answers whether the disk keeps up.
    fn tell_rows(&mut self, profile: &Profile, stacks: &impl StackSource) -> bool {
        let mut keeps_up = true;
        let all = profile.sheet().rows.all();
        for row in all.iter().skip(self.rows_told) {
            match self.stacks.get(row.stack) {
                None => {
                    let stack = stacks.stack(row.stack);
                    let frames: Vec<u64> =
                        stack.iter().flat_map(|s| &s.frames).map(|at| at.get()).collect();
                    let number = self.rows.new_stack(row.thread, &frames, rows::end_of(stack));
                    self.stacks.set(row.stack, number);
                }
                Some(known) => self.rows.known(row.thread, known),
            }
            if self.rows.len() >= ROWS {
                keeps_up &= self.write_queue.put(Content::Rows, self.rows.finish());
            }
        }
        self.rows_told = all.len();
        if self.rows.len() > 0 {
            keeps_up &= self.write_queue.put(Content::Rows, self.rows.finish());
        }
        keeps_up
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
                self.write_queue.put(Content::Names, std::mem::replace(&mut text, begin()));
            }
        }
        text.extend(b"]}");
        self.write_queue.put(Content::Names, text);
    }
}

impl Journal for SessionWriter {
    fn note(&mut self, change: &Change) {
        if let Some(changes) = &mut self.changes {
            changes.note(change);
        }
    }
}

/// Answers whether the disk keeps up.
fn put_json<T: Serialize + ?Sized>(write_queue: &WriteQueue, content: Content, what: &T) -> bool {
    // Text and numbers do not fail.
    serde_json::to_vec(what).is_ok_and(|text| write_queue.put(content, text))
}
