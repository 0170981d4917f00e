//! Questions asked from threads until told to stop, every answer checked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

/// What a worker counts as it goes: it stops when told, and says when an answer was right.
#[derive(Debug, Default)]
pub struct Tally {
    stop: AtomicBool,
    answered: AtomicU64,
}

impl Tally {
    /// Whether the worker shall go on.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// So many more questions were answered, rightly.
    pub fn answered(&self, number: u64) {
        self.answered.fetch_add(number, Ordering::Relaxed);
    }
}

/// Workers that run until [`Load::finish`].
#[derive(Debug, Default)]
pub struct Load {
    tally: Arc<Tally>,
    workers: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    /// Adds a worker: it loops while the tally goes on, and returns at the first wrong answer.
    #[must_use]
    pub fn with(
        mut self,
        work: impl FnOnce(&Tally) -> Result<(), String> + Send + 'static,
    ) -> Self {
        let tally = Arc::clone(&self.tally);
        self.workers.push(thread::spawn(move || work(&tally)));
        self
    }

    /// Questions answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.tally.answered.load(Ordering::Relaxed)
    }

    /// Stops all workers and waits for them.
    ///
    /// # Errors
    /// What the workers complained of.
    pub fn finish(mut self) -> Result<u64, String> {
        self.tally.stop.store(true, Ordering::Relaxed);
        let complaints: Vec<String> = self
            .workers
            .drain(..)
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".into())))
            .filter_map(Result::err)
            .collect();
        if complaints.is_empty() { Ok(self.answered()) } else { Err(complaints.join("; ")) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::Relaxed);
    }
}
