//! A client that notices how long a server does not answer.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::deadline::poll;

/// A client that asks without end, and remembers how long it had to wait.
#[derive(Debug)]
pub struct Probe {
    shared: Arc<Shared>,
    client: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    answers: AtomicU64,
    longest_us: AtomicU64,
}

impl Probe {
    /// Begins to ask.
    ///
    /// # Panics
    /// If no server listens.
    #[must_use]
    pub fn start(socket: &Path) -> Self {
        let shared = Arc::new(Shared::default());
        let stream = UnixStream::connect(socket).expect("a server listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("not zero");
        let theirs = Arc::clone(&shared);
        let client = thread::spawn(move || ask(stream, &theirs));
        Self { shared, client: Some(client) }
    }

    /// The longest wait since the last call.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        Duration::from_micros(self.shared.longest_us.swap(0, Relaxed))
    }

    /// Whether the server still answers.
    #[must_use]
    pub fn answers(&self) -> bool {
        let then = self.shared.answers.load(Relaxed);
        poll(Duration::from_secs(5), || (self.shared.answers.load(Relaxed) > then).then_some(()))
            .is_some()
    }
}

fn ask(mut stream: UnixStream, shared: &Shared) {
    const ANSWER: &[u8; 7] = b"+PONG\r\n";
    let mut last = Instant::now();
    while !shared.stop.load(Relaxed) {
        let mut answer = [0; ANSWER.len()];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
        if asked.is_err() || answer != *ANSWER {
            return;
        }
        shared.answers.fetch_add(1, Relaxed);
        let now = Instant::now();
        let waited = u64::try_from((now - last).as_micros()).unwrap_or(u64::MAX);
        shared.longest_us.fetch_max(waited, Relaxed);
        last = now;
        // Leave the processor to those who are measured.
        thread::sleep(Duration::from_micros(100));
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(client) = self.client.take() {
            let _ = client.join();
        }
    }
}
