//! What the program tells by `heapattach.h` while it is watched.

use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use heapattach_injector::watch::{
    Session,
    mailbox::{Entry, Mailboxes, Request, Wish},
};

use heapattach_ledger::Mark;
use heapattach_profile::Tick;
use heapattach_report::CheckReport;
use heapattach_text::error_chain::with_causes;
use heapattach_text::printable::printable;

use super::declared::Heard;
use crate::watch::notes::SharedNotes;

/// Checks that are waited for, and marks that are kept.
const MOST_WAITING: usize = 64;
const MOST_MARKS: usize = 1000;

/// What a check is called that a program requests as of LeakSanitizer.
pub(in crate::check) const LSAN_CHECK: &str = "__lsan_do_leak_check";
/// The same of valgrind.
pub(in crate::check) const VALGRIND_CHECK: &str = "VALGRIND_DO_LEAK_CHECK";

/// Checks that were requested in between allocations so far, of LeakSanitizer and of valgrind.
pub(in crate::check) fn requested(notes: &SharedNotes) -> [u64; 2] {
    [&notes.checks, &notes.checks_of_valgrind].map(|checks| checks.load(Relaxed))
}

/// What a check found that a thread of the program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum Answer {
    /// As of LeakSanitizer: whether that is a leak.
    Lsan(bool),
    /// As of valgrind: bytes that are leaked, possibly leaked, reachable and suppressed, then blocks.
    Valgrind([u64; 8]),
}

/// What was in the mailboxes.
#[derive(Debug, Default)]
pub(in crate::check) struct Mail {
    waiting: VecDeque<Request>,
    marks: Vec<Mark>,
    /// What the program said of its memory, and when that was first seen.
    heard: HashMap<Entry, Tick>,
    overflow: u64,
    /// Checks that were requested in between allocations, and results of them that were told, of
    /// LeakSanitizer and of valgrind.
    requested: [u64; 2],
    told: [u32; 2],
    /// Marks that were not heeded, and checks.
    dropped: u64,
    refused: u64,
}

impl Mail {
    /// Takes in what came.
    pub(in crate::check) fn look(&mut self, session: &mut Session<'_>, elapsed: Duration) {
        if session.mailboxes.is_empty() {
            return;
        }
        let memory = &session.target().memory;
        for request in session.mailboxes.requests(memory) {
            match request.wish {
                Wish::Check if self.waiting.len() < MOST_WAITING => self.waiting.push_back(request),
                Wish::Mark if self.marks.len() < MOST_MARKS => {
                    let at_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                    self.marks.push(Mark { at_ms, why: printable(&request.name) });
                }
                Wish::Check => self.refused += 1,
                Wish::Mark => self.dropped += 1,
            }
        }
        self.hear(session, elapsed);
    }

    /// So many checks were requested so far, as [`requested`] says.
    pub(in crate::check) fn request(&mut self, requested: [u64; 2]) {
        for (which, name) in [LSAN_CHECK, VALGRIND_CHECK].into_iter().enumerate() {
            while self.requested[which] < requested[which] {
                self.requested[which] += 1;
                if self.waiting.len() < MOST_WAITING {
                    let (mailbox, number, name) = (usize::MAX, 0, name.to_owned());
                    self.waiting.push_back(Request { mailbox, number, wish: Wish::Check, name });
                } else {
                    self.refused += 1;
                }
            }
        }
    }

    /// Tells who waits what its check found.
    pub(in crate::check) fn conclude(&mut self, session: &Session<'_>, answer: Answer) {
        let [of_lsan, of_valgrind] = &mut self.told;
        match answer {
            Answer::Lsan(is_leaked) => {
                *of_lsan = of_lsan.wrapping_add(1);
                session.answer_stand_ins(*of_lsan, is_leaked);
            }
            Answer::Valgrind(found) => {
                *of_valgrind = of_valgrind.wrapping_add(1);
                session.answer_requests(*of_valgrind, &found);
            }
        }
    }

    fn hear(&mut self, session: &Session<'_>, elapsed: Duration) {
        let now = Tick::after(elapsed);
        let (entries, overflow) = session.mailboxes.entries(&session.target().memory);
        let old = std::mem::take(&mut self.heard);
        let known = |entry: &Entry| old.get(entry).copied().unwrap_or(now);
        self.heard = entries.into_iter().map(|entry| (entry, known(&entry))).collect();
        self.overflow = overflow;
    }

    /// What the program says of its memory at this moment, in which it is stopped.
    pub(in crate::check) fn heard(
        &mut self,
        session: &Session<'_>,
        elapsed: Duration,
    ) -> Vec<Heard> {
        if !session.mailboxes.is_empty() {
            self.hear(session, elapsed);
        }
        self.heard.iter().map(|(entry, seen)| (entry.said, *seen)).collect()
    }

    /// Whether a thread of the program waits for a check.
    pub(in crate::check) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What the moment is called that is waited for.
    pub(in crate::check) fn name(&self) -> Option<String> {
        self.waiting.front().map(|request| printable(&request.name))
    }

    /// What the moments are called that are still waited for, now that there will be no more.
    pub(in crate::check) fn left(&mut self) -> Vec<String> {
        self.waiting.drain(..).map(|request| printable(&request.name)).collect()
    }

    /// Lets go on who waits.
    pub(in crate::check) fn answer(&mut self, session: &mut Session<'_>) {
        if let Some(request) = self.waiting.pop_front() {
            let memory = &session.target().memory;
            session.mailboxes.answer(memory, &request);
        }
    }

    /// Writes down what there is to be said.
    pub(in crate::check) fn tell(self, mailboxes: &Mailboxes, check: &mut CheckReport) {
        check.marks = self.marks;
        if self.refused > 0 {
            let many = self.refused;
            check
                .unmade
                .push(format!("{many} checks that the program requested: too many at once"));
        }
        let dropped = self.dropped.saturating_add(mailboxes.lost);
        if dropped > 0 {
            check.notes.push(format!("{dropped} requests of the program came too fast"));
        }
        if self.overflow > 0 {
            let many = self.overflow;
            check.notes.push(format!(
                "{many} times HEAPATTACH_IGNORE or HEAPATTACH_ROOT found no room in the program's table"
            ));
        }
        if let Some(error) = &mailboxes.failed {
            let why = with_causes(error);
            check.notes.push(format!("a mailbox of the program is not served: {why}"));
        }
    }
}
