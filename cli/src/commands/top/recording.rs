//! A recording as a source: one that is being written, or one that is whole.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use heapattach_ledger::Ledger;
use heapattach_recording::{Recording, RecordingError};
use heapattach_top::{Snapshot, State, Subject};

/// What grows is told of so long: that much of a recording is told before all of it.
const PAST: Duration = Duration::from_secs(60);

/// A file, and how far it was read.
#[derive(Debug)]
pub struct RecordingSource {
    path: PathBuf,
    read: Option<Stamp>,
    is_over: bool,
}

/// What of a file changes when it grows, or another takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: u64,
    length: u64,
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
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: None, is_over: false }
    }

    /// What is new since the last time.
    ///
    /// # Errors
    /// If it cannot be read, or there is nothing in it yet.
    pub fn look(&mut self) -> Result<News, String> {
        if self.is_over {
            return Ok(News::default());
        }
        let about = fs::metadata(&self.path).map_err(|error| error.to_string())?;
        let stamp = Stamp { file: about.ino(), length: about.len() };
        if self.read == Some(stamp) {
            return Ok(News::default());
        }
        let recording = Recording::open(&self.path).map_err(|error| error.to_string())?;
        let mut snapshots = Vec::new();
        let ledger = named(recording.ledger(None));
        let lasted = Duration::from_millis(ledger.about.lasted_ms);
        if self.read.is_none() && lasted > PAST {
            let before = recording.ledger(Some(Duration::ZERO..lasted - PAST));
            snapshots.push(snapshot(named(before), &recording));
        }
        snapshots.push(snapshot(ledger, &recording));
        self.read = Some(stamp);
        self.is_over = recording.is_final();
        let state = self.is_over.then(|| State::Over(over(&recording)));
        Ok(News { snapshots, state })
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

fn named(mut ledger: Ledger) -> Arc<Ledger> {
    ledger.shorten_names();
    Arc::new(ledger)
}

fn snapshot(ledger: Arc<Ledger>, recording: &Recording) -> Snapshot {
    Snapshot { ledger, marks: recording.marks().to_vec() }
}

fn over(recording: &Recording) -> String {
    match recording.ledger(None).about.outcome.as_str() {
        "" => "the session is over".to_owned(),
        outcome => format!("the session is over: {outcome}"),
    }
}
