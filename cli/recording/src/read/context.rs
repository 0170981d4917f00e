//! What is known of a session besides its sums, whether it comes out of a file or from the process that
//! held the session: both make the same of it.

use std::time::Duration;

use crate::format::heading::Heading;
use crate::names::Code;
use heapattach_ledger::{Moment, Thread};
use heapattach_profile::{micros, ticks};
use heapattach_text::printable::printable;

/// Threads beyond this are left out.
const THREADS: usize = 1 << 16;

/// What is known of a session besides its sums.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// What is said in words.
    pub heading: Heading,
    /// The code that its stacks lead through.
    pub code: Code,
    /// The threads; rows name them by number.
    pub threads: Vec<Thread>,
    /// In the order of time.
    pub moments: Vec<Moment>,
}

impl Context {
    /// Makes it fit to be shown. Code that makes no sense is left out.
    pub fn clean(&mut self) {
        self.heading.clean();
        self.threads.truncate(THREADS);
        self.threads.iter_mut().for_each(|thread| thread.name = printable(&thread.name));
        self.code.clean();
        if !self.code.is_sound() {
            self.code = Code::default();
        }
    }

    /// How long the session is, in ticks, if what is known last of its sums was known at `last`.
    pub fn length(&self, last: u64) -> u64 {
        let told = Duration::from_millis(self.heading.about.lasted_ms);
        let moment = self.moments.last().map_or(0, |moment| moment.at_ms);
        ticks(told).max(ticks(Duration::from_millis(moment))).max(last)
    }

    /// Says how long that is which is told, in ticks.
    pub fn set_lasted(&mut self, lasted: u64) {
        self.heading.about.lasted_ms = millis(lasted);
    }
}

/// Whole milliseconds.
pub fn millis(ticks: u64) -> u64 {
    micros(ticks) / 1000
}
