//! The writing end of a file, in a thread of its own: compression takes longer than rings wait, and
//! a disk can take longer still.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use super::{
    block::{self, Content, Place},
    place, snapshot,
};

/// Blocks that may wait to be written. Who has more waits, and rings fill meanwhile.
const WAITING: usize = 16;

/// Where the bytes go.
#[derive(Debug)]
pub struct Tape {
    /// `None` once it is closed.
    blocks: Option<SyncSender<(Content, Vec<u8>)>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
}

/// What both ends know.
#[derive(Debug, Default)]
struct State {
    bytes: AtomicU64,
    /// What happened takes as much room as it may.
    is_full: AtomicBool,
    /// Everything else takes so much room that there is none for what happens.
    is_crowded: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

/// The thread's side.
#[derive(Debug)]
struct Writer {
    file: File,
    /// `None` for a file without a name.
    path: Option<PathBuf>,
    limit: u64,
    end: u64,
    /// All blocks, those with changes too.
    places: Vec<Place>,
    state: Arc<State>,
}

impl Tape {
    /// A new recording in an empty file of this name, not much larger than `limit`.
    ///
    /// # Errors
    /// It cannot be written to, or there is no thread.
    pub fn start(file: File, path: Option<PathBuf>, limit: u64) -> io::Result<Self> {
        let title = block::title();
        file.write_all_at(&title, 0)?;
        let state = Arc::new(State::default());
        let end = title.len() as u64;
        let mut writer =
            Writer { file, path, limit, end, places: Vec::new(), state: state.clone() };
        let (blocks, waiting) = sync_channel(WAITING);
        let work = move || writer.work(&waiting);
        let thread = thread::Builder::new().name("recording".to_owned()).spawn(work)?;
        Ok(Self { blocks: Some(blocks), thread: Some(thread), state })
    }

    /// Writes another block. What fails is told at the end.
    pub fn put(&self, content: Content, bytes: Vec<u8>) {
        if let Some(blocks) = &self.blocks {
            let _ = blocks.send((content, bytes));
        }
    }

    /// Whether what happened takes as much room as it may; the next snapshot makes it free.
    pub fn is_full(&self) -> bool {
        self.state.is_full.load(Relaxed)
    }

    /// Whether what happens finds no room any more; only snapshots do.
    pub fn is_crowded(&self) -> bool {
        self.state.is_crowded.load(Relaxed)
    }

    /// Whether something could not be written; then nothing more is.
    pub fn has_failed(&self) -> bool {
        self.state.error.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits until everything is written; answers how many bytes that are.
    ///
    /// # Errors
    /// Something could not be written; what was written before is whole.
    pub fn finish(mut self) -> io::Result<u64> {
        self.close();
        match self.state.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(self.state.bytes.load(Relaxed)),
        }
    }

    fn close(&mut self) {
        self.blocks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.close();
    }
}

impl Writer {
    fn work(&mut self, waiting: &Receiver<(Content, Vec<u8>)>) {
        let mut has_failed = false;
        while let Ok((content, bytes)) = waiting.recv() {
            // Whoever sends must not wait for ever: everything is taken.
            if has_failed {
                continue;
            }
            if let Err(error) = self.put(content, &bytes) {
                has_failed = true;
                // Half a block is of no use, and takes room that others may need.
                let _ = self.file.set_len(self.end);
                *self.state.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    }

    fn put(&mut self, content: Content, bytes: &[u8]) -> io::Result<()> {
        let too_long = || io::Error::other("a block is too long");
        let block = block::encode(content, bytes).ok_or_else(too_long)?;
        self.file.write_all_at(&block, self.end)?;
        let place = block::place_of(self.end, &block).ok_or_else(too_long)?;
        self.end = place.end();
        self.places.push(place);
        let ends_snapshot = content == Content::Snapshot
            && snapshot::head(bytes).is_some_and(|(_, is_last)| is_last);
        if ends_snapshot && self.state.is_full.load(Relaxed) {
            self.forget_changes()?;
            self.state.is_crowded.store(self.end > self.limit / 4 * 3, Relaxed);
            self.state.is_full.store(false, Relaxed);
        } else if self.end > self.limit && !self.state.is_crowded.load(Relaxed) {
            self.state.is_full.store(true, Relaxed);
        }
        self.state.bytes.store(self.end, Relaxed);
        Ok(())
    }

    /// Leaves out what happened before the last snapshot: a new file takes the place of this one.
    fn forget_changes(&mut self) -> io::Result<()> {
        // A file without a name is nobody's to look at before the end; it cannot be replaced.
        let Some(path) = self.path.clone() else { return Ok(()) };
        let mut name = path.clone().into_os_string();
        name.push(".new");
        let name = PathBuf::from(name);
        let file = place::create(&name).map_err(|error| io::Error::other(error.to_string()))?;
        let copied = self.copy_to(&file).and_then(|done| {
            std::fs::rename(&name, &path)?;
            Ok(done)
        });
        match copied {
            Ok((end, places)) => {
                (self.file, self.end, self.places) = (file, end, places);
                Ok(())
            }
            Err(error) => {
                let _ = std::fs::remove_file(&name);
                Err(error)
            }
        }
    }

    fn copy_to(&self, file: &File) -> io::Result<(u64, Vec<Place>)> {
        let title = block::title();
        file.write_all_at(&title, 0)?;
        let mut end = title.len() as u64;
        let mut places = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let later = &self.places[number + 1..];
            let is_old = place.content.is_replaced()
                && later.iter().any(|other| other.content == place.content);
            if place.content == Content::Changes || is_old {
                continue;
            }
            let mut bytes = vec![0; block::HEAD + place.stored as usize];
            self.file.read_exact_at(&mut bytes, place.at)?;
            file.write_all_at(&bytes, end)?;
            let moved = place.moved(end);
            end = moved.end();
            places.push(moved);
        }
        Ok((end, places))
    }
}
