//! What the user has a session wait for: resident memory that reaches a limit, and growth that is
//! certain. Only reads of ours: the target does nothing for it.

mod growth;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use heapattach_injector::watch::Session;
use heapattach_report::Trigger;

use crate::watch::{
    memory_course::resident,
    options::{GrowthOptions, TriggerOptions},
    schedule::Schedule,
};
use growth::GrowthWatch;

/// How often resident memory is compared with its limit.
const RESIDENT: Duration = Duration::from_millis(100);

/// What is waited for in one session.
#[derive(Debug)]
pub struct Triggers {
    rss: Option<(u64, Instant)>,
    growth: Option<(GrowthOptions, GrowthWatch)>,
    came: Option<Trigger>,
    recording: Option<PathBuf>,
}

/// Something that came just now.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// The session is to end with it.
    Last(Trigger),
    /// The session goes on; this is not told again.
    Once(Trigger),
}

impl Triggers {
    /// Of a session that begins now, written down in this file. `is_from_start`: no block is older than
    /// it.
    pub fn new(options: &TriggerOptions, is_from_start: bool, recording: Option<PathBuf>) -> Self {
        let growth =
            options.growth.map(|growth| (growth, GrowthWatch::new(&growth, is_from_start)));
        let rss = options.until_rss.map(|limit| (limit, Instant::now()));
        Self { rss, growth, came: None, recording }
    }

    /// Where the session is written down, if in a file with a name.
    pub fn recording(&self) -> Option<&PathBuf> {
        self.recording.as_ref()
    }

    /// Looks, if it is time.
    pub fn look(&mut self, session: &Session<'_>, schedule: &Schedule<'_>) -> Option<Came> {
        let came = self.rss(session, schedule).or_else(|| self.growth(session, schedule))?;
        let (Came::Last(trigger) | Came::Once(trigger)) = came;
        self.came = Some(trigger);
        Some(came)
    }

    /// When resident memory is looked at next, if it is.
    pub fn next(&self) -> Option<Instant> {
        self.rss.map(|(_, next)| next)
    }

    /// What came last, if anything.
    pub fn came(&self) -> Option<Trigger> {
        self.came
    }

    fn rss(&mut self, session: &Session<'_>, schedule: &Schedule<'_>) -> Option<Came> {
        let (limit, next) = self.rss.as_mut()?;
        let now = Instant::now();
        if now < *next {
            return None;
        }
        *next = now + RESIDENT;
        let bytes = resident(&session.target().process).0.filter(|bytes| bytes >= limit)?;
        Some(Came::Last(Trigger::Rss { at_ms: schedule.at_ms(), bytes, limit: *limit }))
    }

    fn growth(&mut self, session: &Session<'_>, schedule: &Schedule<'_>) -> Option<Came> {
        let (options, watch) = self.growth.as_mut()?;
        let trigger = watch.look(session, schedule)?;
        if options.ends {
            return Some(Came::Last(trigger));
        }
        self.growth = None;
        Some(Came::Once(trigger))
    }
}
