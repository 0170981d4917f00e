//! A recording as a source: one that is being written, or one that is whole.

use std::{path::Path, sync::Arc, time::Duration};

use heapattach_ledger::Ledger;
use heapattach_recording::{Growing, Recording, RecordingError};
use heapattach_top::{Snapshot, State, Subject};

/// What grows is told of so long: that much of a recording is told before all of it.
const PAST: Duration = Duration::from_secs(60);

/// A file that is read as it grows.
#[derive(Debug)]
pub struct RecordingSource {
    file: Growing,
    is_over: bool,
}

/// What is new.
#[derive(Debug, Default)]
pub struct News {
    /// What was, and is, known: the earlier first.
    pub snapshots: Vec<Snapshot>,
    /// How it is with the source, if that is known.
    pub state: Option<State>,
}

impl RecordingSource {
    /// Not read yet.
    pub fn new(path: &Path) -> Self {
        Self { file: Growing::new(path), is_over: false }
    }

    /// What is new since the last time.
    ///
    /// # Errors
    /// If it cannot be read, or there is nothing in it yet.
    pub fn look(&mut self) -> Result<News, String> {
        if self.is_over {
            return Ok(News::default());
        }
        let is_first = self.file.recording().is_none();
        let Some(ledger) = self.file.look().map_err(|error| error.to_string())? else {
            return Ok(News::default());
        };
        let mut news = News::default();
        let lasted = Duration::from_millis(ledger.about.lasted_ms);
        if let Some(recording) = self.file.recording().filter(|_| is_first && lasted > PAST) {
            let before = recording.ledger(Some(Duration::ZERO..lasted - PAST));
            news.snapshots.push(self.snapshot(before));
        }
        self.is_over = self.file.is_final();
        if self.is_over {
            let outcome = &ledger.about.outcome;
            let why = if outcome.is_empty() { String::new() } else { format!(": {outcome}") };
            news.state = Some(State::Over(format!("the session is over{why}")));
        }
        news.snapshots.push(self.snapshot(ledger));
        Ok(news)
    }

    fn snapshot(&self, mut ledger: Ledger) -> Snapshot {
        ledger.shorten_names();
        Snapshot { ledger: Arc::new(ledger), marks: self.file.marks().to_vec() }
    }
}

/// Whose recording it is.
///
/// # Errors
/// If it is none.
pub fn subject(path: &Path) -> Result<Subject, RecordingError> {
    let about = Recording::open(path)?.ledger(None).about;
    let name = about.command.split(' ').next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default().to_owned();
    let from = path.display().to_string();
    Ok(Subject { name, pid: about.pid, from, is_own: false })
}
