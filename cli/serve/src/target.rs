//! A process whose session is written to a file: its ledger, read once for all who ask at about the same time.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use heapattach_export::html::SourceFile;
use heapattach_ledger::{Ledger, Mark, Metric};
use heapattach_recording::Growing;

use crate::{
    page_source::{Beside, PageSource, Shown},
    stop::Stop,
};

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
    shows_args: bool,
    has_args: OnceLock<bool>,
    read: Mutex<Read>,
    /// What was told the last time to those who ask for what has come since.
    told: Mutex<Option<Arc<Ledger>>>,
    page: PageSource,
    beside: Beside,
    /// The page of what does not change, a moment, in the place of one that follows a recording.
    fixed: Option<Vec<u8>>,
    /// Whether it is watched for a slot, of which nothing can be said to be in use.
    is_slot: bool,
    is_over: AtomicBool,
}

/// The recording, of which only what is new is read each time; what was read, and until when it serves.
#[derive(Debug)]
struct Read {
    file: Growing,
    ledger: Option<Arc<Ledger>>,
    until: Instant,
}

impl Target {
    /// A process whose session is written to this file; of its command line only the program is told, unless
    /// `shows_args`.
    pub fn new(pid: i32, name: String, path: PathBuf, shows_args: bool) -> Self {
        let (has_args, told, beside, fixed, is_over) = Default::default();
        let is_slot = false;
        let read = Read { file: Growing::new(&path), ledger: None, until: Instant::now() };
        let read = Mutex::new(read);
        let page = PageSource::new(&path);
        Self {
            pid,
            name,
            path,
            shows_args,
            has_args,
            read,
            told,
            page,
            beside,
            fixed,
            is_slot,
            is_over,
        }
    }

    /// The same, whose page has what lies beside the recording.
    #[must_use]
    pub fn with(self, beside: Beside) -> Self {
        Self { beside, ..self }
    }

    /// The same, of which nothing but this page is told.
    #[must_use]
    pub fn with_page(self, page: Vec<u8>) -> Self {
        Self { fixed: Some(page), ..self }
    }

    /// The same, watched for a slot only: blocks that were there before are unknown, so that none are told as in use.
    #[must_use]
    pub fn of_slot(self) -> Self {
        Self { is_slot: true, ..self }
    }

    /// Whether it is watched for a slot only.
    pub fn is_slot(&self) -> bool {
        self.is_slot
    }

    /// It is not served any more.
    pub fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether it is served no more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// The page of what does not change.
    pub fn fixed_page(&self) -> Option<&[u8]> {
        self.fixed.as_deref()
    }

    /// What its page shows now.
    ///
    /// # Errors
    /// While there is nothing yet, or if it cannot be read.
    pub fn shown(&self, stop: &Stop) -> Result<Shown, String> {
        self.page.now(stop, |ledger| self.hide_args(ledger))
    }

    /// A source file by the name that the compiler was told.
    pub fn source(&self, name: &str, began: u64) -> Option<SourceFile> {
        (self.beside.source)(name, began)
    }

    /// Whether a process has the recording open to write to it, if that can be known.
    pub fn has_writer(&self) -> Option<bool> {
        (self.beside.writer)(&self.path)
    }

    /// Whether its command line has arguments, as `look` finds once.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn whether_has_args(
        &self,
        look: impl FnOnce(&Path) -> Result<bool, String>,
    ) -> Result<bool, String> {
        if let Some(known) = self.has_args.get() {
            return Ok(*known);
        }
        let found = look(&self.path)?;
        Ok(*self.has_args.get_or_init(|| found))
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
        self.ledger_of(Some(Instant::now()))
    }

    /// What is known of it at the very end: nothing that was read before serves.
    ///
    /// # Errors
    /// As [`Self::ledger`].
    pub fn last_ledger(&self) -> Result<Arc<Ledger>, String> {
        self.ledger_of(None)
    }

    /// Read now, or what was read before and serves still at `at`.
    fn ledger_of(&self, at: Option<Instant>) -> Result<Arc<Ledger>, String> {
        // Others who ask wait for the same ledger.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = at.is_some_and(|at| at < read.until);
        if let Some(ledger) = read.ledger.clone().filter(|_| serves) {
            return Ok(ledger);
        }
        let began = Instant::now();
        let new = read.file.look().map_err(|error| error.to_string())?;
        // There may be hundreds of processes.
        read.file.close_code();
        if let Some(mut ledger) = new {
            self.hide_args(&mut ledger);
            read.ledger = Some(Arc::new(ledger));
        }
        read.until = Instant::now() + FRESH.max(began.elapsed() * SHARE);
        read.ledger.clone().ok_or_else(|| "the recording cannot be read".to_owned())
    }

    fn hide_args(&self, ledger: &mut Ledger) {
        let command = &mut ledger.about.command;
        if !self.shows_args {
            command.truncate(command.find(' ').unwrap_or(command.len()));
        }
        if command.is_empty() {
            command.clone_from(&self.name);
        }
    }

    /// Moments that were marked by now.
    pub fn marks(&self) -> Vec<Mark> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.file.marks().to_vec()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_read_again() {
        let folder = heapattach_test_folder::Folder::new("target");
        let (whole, path) = (folder.0.join("whole"), folder.0.join("a"));
        heapattach_recording::sample::ten_seconds(&whole);
        let bytes = std::fs::read(&whole).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let target = Target::new(7, "a".to_owned(), path.clone(), true);
        let first = target.last_ledger().unwrap();
        // What was not whole is told as damaged if it stays so.
        let second = target.last_ledger().unwrap();
        assert!(Arc::ptr_eq(&second, &target.last_ledger().unwrap()), "nothing was recorded");
        let file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut &file, &bytes[bytes.len() / 2..]).unwrap();
        let last = target.last_ledger().unwrap();
        assert!(last.about.lasted_ms > first.about.lasted_ms);
        let told = heapattach_recording::Recording::open(&whole).unwrap().ledger(None);
        let sums = |ledger: &Ledger| Metric::ALL.map(|metric| ledger.total.measure(metric));
        assert_eq!(format!("{:?}", sums(&last)), format!("{:?}", sums(&told)));
        assert!(Arc::ptr_eq(&last, &target.last_ledger().unwrap()));
    }
}
