//! The writing end of a file, in a thread of its own: compression takes longer than rings wait, and
//! a disk can take longer still, or for ever.
//!
//! No thread waits for the disk for longer than [`Patience`] says, and a thread that has the target
//! attached does not wait at all once [`Haste`] asks for that. What was passed on is kept until it is
//! written.

use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::Cut;
use crate::{
    format::{block::Content, disk::Disk},
    write::writer::Writer,
};

/// Blocks that may wait to be written. With more the producer waits, and rings fill meanwhile.
const WAITING: usize = 16;

/// How long the disk may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For room to pass on a block; what happens from then on is left out until there is some.
    pub block: Duration,
    /// For anything at all to be written at the end; then the recording ends there.
    pub end: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { block: Duration::from_secs(2), end: Duration::from_secs(20) }
    }
}

/// Where the bytes go.
#[derive(Debug)]
pub struct WriteQueue {
    state: Arc<State>,
    patience: Patience,
}

/// Ends the wait of a thread that waits for the disk.
#[derive(Clone, Debug)]
pub struct Haste(Arc<State>);

/// What both ends know.
#[derive(Debug, Default)]
pub struct State {
    queue: Mutex<Queue>,
    /// Something was taken, or written.
    moved: Condvar,
    /// Something was added, or nothing more will be.
    added: Condvar,
    hurries: AtomicBool,
    /// Bytes written.
    pub bytes: AtomicU64,
    /// What happened takes as much room as it may.
    pub is_full: AtomicBool,
    /// Everything else takes so much room that there is none for what happens.
    pub is_crowded: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    blocks: VecDeque<(Content, Vec<u8>)>,
    /// A thread has waited for room in vain.
    is_stalled: bool,
    /// Nothing more will come.
    is_closed: bool,
    /// Everything is written, or nothing more will be.
    is_done: bool,
    error: Option<io::Error>,
    /// When that was, after the beginning.
    failed: Option<Duration>,
}

impl WriteQueue {
    /// On a file that has its first line, and is not to become much larger than `limit`.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        disk: impl Disk + 'static,
        path: Option<PathBuf>,
        limit: u64,
        patience: Patience,
    ) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let mut writer = Writer::new(Box::new(disk), path, limit, state.clone());
        // No thread joins it: it may never come back from the disk.
        thread::Builder::new().name("recording".to_owned()).spawn(move || writer.work())?;
        Ok(Self { state, patience })
    }

    /// Passes on another block. What fails is told at the end. Answers whether there is room for
    /// more; if there is not, not even after some time, the disk does not keep up.
    pub fn put(&self, content: Content, bytes: Vec<u8>) -> bool {
        let mut queue = self.state.lock();
        if !queue.is_done {
            queue.blocks.push_back((content, bytes));
            self.state.added.notify_one();
        }
        // A thread that has waited in vain once does not wait again before something has moved.
        if !queue.is_stalled || queue.blocks.len() < WAITING {
            queue = self.wait(queue, |state, queue| {
                queue.blocks.len() < WAITING || state.hurries.load(Relaxed)
            });
        }
        queue.is_stalled = queue.blocks.len() >= WAITING;
        !queue.is_stalled
    }

    /// Whether everything that was passed on is being written.
    pub fn is_idle(&self) -> bool {
        self.state.lock().blocks.is_empty()
    }

    /// Waits until what happened is gone that had to make room for a snapshot; answers whether
    /// it is.
    pub fn make_room(&self) -> bool {
        let full = || self.state.is_full.load(Relaxed);
        let queue = self.wait(self.state.lock(), |state, queue| {
            !full() || queue.is_done || state.hurries.load(Relaxed)
        });
        !full() || queue.is_done
    }

    /// Whether what happened takes as much room as it may; the next snapshot makes it free.
    pub fn is_full(&self) -> bool {
        self.state.is_full.load(Relaxed)
    }

    /// Whether what happens finds no room any more; only snapshots do.
    pub fn is_crowded(&self) -> bool {
        self.state.is_crowded.load(Relaxed)
    }

    /// For a user who will have no time.
    pub fn haste(&self) -> Haste {
        Haste(self.state.clone())
    }

    /// Waits until everything is written; answers how many bytes that are.
    ///
    /// # Errors
    /// Something could not be written, or the disk has done nothing for a long time; what was
    /// written before is whole.
    pub fn finish(self) -> Result<u64, Cut> {
        self.close();
        let bytes = self.state.bytes.load(Relaxed);
        let mut queue = self.state.lock();
        match queue.error.take() {
            Some(error) => Err(Cut { error, bytes, after: queue.failed }),
            None => Ok(bytes),
        }
    }

    /// Waits as long as the disk does something.
    fn close(&self) {
        let mut queue = self.state.lock();
        queue.is_closed = true;
        self.state.added.notify_one();
        let mut seen = (queue.blocks.len(), self.state.bytes.load(Relaxed));
        let mut deadline = Instant::now() + self.patience.end;
        while !queue.is_done {
            let left = deadline.saturating_duration_since(Instant::now());
            let now = (queue.blocks.len(), self.state.bytes.load(Relaxed));
            if now != seen {
                (seen, deadline) = (now, Instant::now() + self.patience.end);
            } else if left.is_zero() {
                let what = format!(
                    "the disk has accepted nothing for {} s, {} blocks wait",
                    self.patience.end.as_secs(),
                    queue.blocks.len() + 1
                );
                queue.error.get_or_insert(io::Error::new(io::ErrorKind::TimedOut, what));
                queue.is_done = true;
                return;
            }
            let waited = self.state.moved.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wait<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue>,
        is_over: impl Fn(&State, &Queue) -> bool,
    ) -> MutexGuard<'a, Queue> {
        let deadline = Instant::now() + self.patience.block;
        while !is_over(&self.state, &queue) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.state.moved.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Haste {
    /// From now on, or until further notice.
    pub fn set(&self, hurries: bool) {
        self.0.hurries.store(hurries, Relaxed);
        // A thread that has looked before, and is about to wait, holds the lock.
        drop(self.0.lock());
        self.0.moved.notify_all();
    }
}

impl State {
    /// The next block, and how many wait behind it; `None` at the end.
    pub fn next(&self) -> Option<(Content, Vec<u8>, usize)> {
        let mut queue = self.lock();
        loop {
            if let Some((content, bytes)) = queue.blocks.pop_front() {
                self.moved.notify_all();
                return Some((content, bytes, queue.blocks.len()));
            }
            if queue.is_closed {
                return None;
            }
            queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tells that something is written.
    pub fn tell(&self) {
        drop(self.lock());
        self.moved.notify_all();
    }

    /// The end, or that nothing more can be written so long after the beginning.
    pub fn end(&self, error: Option<io::Error>, after: Duration) {
        let mut queue = self.lock();
        queue.is_done = true;
        queue.blocks.clear();
        if queue.error.is_none() && error.is_some() {
            (queue.error, queue.failed) = (error, Some(after));
        }
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
