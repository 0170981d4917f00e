//! What a page is told of a recording: with its course of time, and what lies beside the recording.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use heapattach_export::html::SourceFile;
use heapattach_ledger::Ledger;
use heapattach_recording::Growing;

use crate::stop::Stop;

/// So many times as long as it took, nothing is read again.
const SHARE: u32 = 5;
/// And not longer than this.
const LONGEST: Duration = Duration::from_secs(20);

/// Reads a source file by the name that the compiler was told; with the start of the session, in seconds
/// since 1970.
type ReadSource = dyn Fn(&str, u64) -> Option<SourceFile> + Send + Sync;
/// Whether a process has this file open to write to it, if that can be known.
type FindWriter = dyn Fn(&Path) -> Option<bool> + Send + Sync;

/// What a recording does not tell.
#[derive(Clone)]
pub struct Beside {
    /// Reads a source file.
    pub source: Arc<ReadSource>,
    /// Looks for the writer of the recording.
    pub writer: Arc<FindWriter>,
}

impl Default for Beside {
    /// Nothing of it is known.
    fn default() -> Self {
        Self { source: Arc::new(|_, _| None), writer: Arc::new(|_| None) }
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beside")
    }
}

/// Which file it is, and how long: it is another when more was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState([u64; 3]);

impl FileState {
    /// Of a file, if it is there.
    pub fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self([about.dev(), about.ino(), about.len()]))
    }
}

/// What a page shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The numbers, with the course of time.
    pub ledger: Arc<Ledger>,
    /// Whether the session came to its end.
    pub is_over: bool,
}

/// The same for all who have the page open at a time.
#[derive(Debug)]
pub struct PageSource(Mutex<Read>);

#[derive(Debug)]
struct Read {
    file: Growing,
    path: PathBuf,
    /// As it was just before it was read, if another look at the same would find nothing new: what is cut short
    /// is told at the second look.
    state: Option<FileState>,
    shown: Option<Shown>,
    /// Not before is it read again.
    until: Instant,
}

impl PageSource {
    /// Of this recording, not read yet.
    pub fn new(path: &Path) -> Self {
        let file = Growing::new(path).with_course();
        let (path, until) = (path.to_owned(), Instant::now());
        Self(Mutex::new(Read { file, path, state: None, shown: None, until }))
    }

    /// All that is recorded now. Waits while reading it would take too much of a processor, but not when all
    /// is over soon.
    ///
    /// # Errors
    /// While there is nothing yet, or if it cannot be read.
    pub fn now(&self, stop: &Stop, change: impl FnOnce(&mut Ledger)) -> Result<Shown, String> {
        // Others who ask wait for the same.
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A recording that is whole is read once, and nothing waits for what was read already.
        let is_known =
            |read: &Read| read.state.is_some() && FileState::of(&read.path) == read.state;
        if let Some(shown) = read.shown.clone().filter(|_| is_known(&read)) {
            return Ok(shown);
        }
        stop.wait_closing(read.until.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        let state = FileState::of(&read.path);
        let new = read.file.look().map_err(|error| error.to_string())?;
        read.state = state.filter(|_| new.is_none() || read.file.is_final());
        if let Some(mut ledger) = new {
            change(&mut ledger);
            ledger.shorten_names();
            let is_over = read.file.is_final();
            read.shown = Some(Shown { ledger: Arc::new(ledger), is_over });
            read.until = Instant::now() + (began.elapsed() * SHARE).min(LONGEST);
        }
        read.shown.clone().ok_or_else(|| "the recording cannot be read".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_of_a_whole_recording_is_not_waited_for() {
        let folder = heapattach_test_folder::Folder::new("page-source");
        let path = folder.0.join("a");
        heapattach_recording::sample::ten_seconds(&path);
        let (source, stop) = (PageSource::new(&path), Stop::default());
        let ask = || source.now(&stop, |_| ()).expect("it can be read").ledger;
        let first = ask();
        source.0.lock().unwrap().until = Instant::now() + Duration::from_secs(3600);
        assert!(Arc::ptr_eq(&first, &ask()));
    }

    #[test]
    fn a_file_that_grew_is_in_another_state() {
        let path = std::env::temp_dir().join(format!("heapattach-state-{}", std::process::id()));
        assert_eq!(FileState::of(&path), None);
        fs::write(&path, "a").unwrap();
        let before = FileState::of(&path);
        assert!(before.is_some() && before == FileState::of(&path));
        fs::write(&path, "ab").unwrap();
        assert_ne!(before, FileState::of(&path));
        fs::remove_file(&path).unwrap();
    }
}
