//! A process whose session is written to a file: its ledger, read once for all who ask at about the same time.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use heapattach_ledger::{Ledger, Mark, Metric};
use heapattach_recording::Recording;

/// A ledger serves for so long, and for as many times as long as it took to read.
const FRESH: Duration = Duration::from_millis(500);
const SHARE: u32 = 20;

/// A process.
#[derive(Debug)]
pub struct Target {
    /// Its number.
    pub pid: i32,
    /// What it is called.
    pub name: String,
    path: PathBuf,
    read: Mutex<Option<Read>>,
    /// What was told the last time to those who ask for what has come since.
    told: Mutex<Option<Arc<Ledger>>>,
}

/// What was read, when, and until when it serves.
#[derive(Debug)]
struct Read {
    ledger: Arc<Ledger>,
    marks: Vec<Mark>,
    until: Instant,
}

impl Target {
    /// A process whose session is written to this file.
    pub fn new(pid: i32, name: String, path: PathBuf) -> Self {
        Self { pid, name, path, read: Mutex::default(), told: Mutex::default() }
    }

    /// Where its session is written to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of it now.
    ///
    /// # Errors
    /// While there is nothing yet, or if it cannot be read.
    pub fn ledger(&self) -> Result<Arc<Ledger>, String> {
        // Others who ask wait for the same ledger.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(read) = read.as_ref().filter(|read| now < read.until) {
            return Ok(read.ledger.clone());
        }
        let recording = Recording::open(&self.path).map_err(|error| error.to_string())?;
        let ledger = Arc::new(recording.ledger(None));
        let until = Instant::now() + FRESH.max(now.elapsed() * SHARE);
        *read = Some(Read { ledger: ledger.clone(), marks: recording.marks().to_vec(), until });
        Ok(ledger)
    }

    /// Moments that were marked by now.
    pub fn marks(&self) -> Vec<Mark> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.as_ref().map(|read| read.marks.clone()).unwrap_or_default()
    }

    /// What is known now, and what was the last time that this was asked.
    ///
    /// # Errors
    /// As [`Self::ledger`].
    pub fn since_told(&self) -> Result<(Arc<Ledger>, Option<Arc<Ledger>>), String> {
        let now = self.ledger()?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((now.clone(), told.replace(now)))
    }
}

/// A ledger as if nothing were in use in it: to be taken off one, it leaves what is in use there.
pub fn without_live(ledger: &Ledger) -> Ledger {
    let mut ledger = ledger.clone();
    for row in ledger.rows.iter_mut().chain([&mut ledger.total]) {
        row.set(Metric::Live, &heapattach_profile::Sum::default());
        row.mapped_live = 0;
    }
    ledger
}
