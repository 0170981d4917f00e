//! What the tracing process tells the command: now and then how far it is, and at last the result. A line of JSON each.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use heapattach_report::CensusReport;
use heapattach_text::quantity;
use serde::{Deserialize, Serialize};

/// Between two words on how far it is.
const PAUSE: Duration = Duration::from_millis(100);
/// Longer results are none.
const LONGEST: u64 = 256 << 20;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// So many bytes were read.
    Read(u64),
    /// The pages of the process are watched for so long from now.
    Watching(Duration),
    /// The result.
    Done(Box<CensusReport>),
}

/// How far it is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes that were read.
    pub read: Arc<AtomicU64>,
    /// Milliseconds for which it waits, or none.
    left: AtomicU64,
    /// Whether the command is gone, or wants no more.
    is_alone: AtomicBool,
}

impl Progress {
    /// Whether the command still waits for the result.
    pub fn is_wanted(&self) -> bool {
        !self.is_alone.load(Relaxed)
    }

    /// Waits; whether it was for the whole time.
    pub fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while self.is_wanted() {
            let left = end.saturating_duration_since(Instant::now());
            self.left.store(u64::try_from(left.as_millis()).unwrap_or(u64::MAX), Relaxed);
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(PAUSE));
        }
        false
    }

    fn message(&self) -> Message {
        match self.left.load(Relaxed) {
            0 => Message::Read(self.read.load(Relaxed)),
            left => Message::Watching(Duration::from_millis(left)),
        }
    }
}

/// Does something that takes long, and tells the command meanwhile how far it is.
pub fn telling<T>(mut line: &UnixStream, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    let (end, ended) = channel::<()>();
    thread::scope(|scope| {
        let told = &progress;
        let tell = move || {
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if send(&mut line, &told.message()).is_err() {
                    told.is_alone.store(true, Relaxed);
                    return;
                }
            }
        };
        // Without a thread nothing is told meanwhile.
        let _ = thread::Builder::new().name("progress".to_owned()).spawn_scoped(scope, tell);
        let done = work(&progress);
        drop(end);
        done
    })
}

/// Tells the result.
pub fn conclude(mut line: &UnixStream, report: CensusReport) {
    // The command may be gone: what was to be undone is undone.
    let _ = send(&mut line, &Message::Done(Box::new(report)));
}

fn send(line: &mut &UnixStream, message: &Message) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    line.write_all(&text)
}

/// The result of the tracing process, with a word to the user how far it is; `None` if it died, or if it only waits and
/// `is_over`.
pub fn follow(
    line: UnixStream,
    mut go_on: impl FnMut(String),
    is_over: impl Fn() -> bool,
) -> Option<CensusReport> {
    let mut lines = BufReader::new(line.take(LONGEST));
    loop {
        let mut text = Vec::new();
        lines.read_until(b'\n', &mut text).ok()?;
        match serde_json::from_slice(&text).ok()? {
            Message::Read(bytes) => {
                go_on(format!("looking through memory: {} read", quantity::bytes(bytes)));
            }
            Message::Watching(_) if is_over() => return None,
            Message::Watching(left) => {
                let left = Duration::from_secs(left.as_secs());
                go_on(format!("watching what is written: {} left", quantity::time(left)));
            }
            Message::Done(report) => return Some(*report),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_comes_after_how_far_it_is() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (told, heard) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let report = telling(&theirs, |progress| {
                    progress.read.store(3 << 20, Relaxed);
                    // It goes on until the user has seen it.
                    heard.recv().unwrap();
                    CensusReport::new(7, "app".to_owned())
                });
                conclude(&theirs, report);
            });
            let mut words = Vec::new();
            let say = |word: String| {
                if word.ends_with(": 3.0 MiB read") {
                    let _ = told.send(());
                }
                words.push(word);
            };
            let report = follow(ours, say, || false);
            assert_eq!(report.unwrap().pid, 7);
            assert!(words.iter().any(|word| word == "looking through memory: 3.0 MiB read"));
        });
    }

    #[test]
    fn a_tracing_process_that_dies_has_no_result() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&mut &theirs, &Message::Read(1)).unwrap();
        drop(theirs);
        assert!(follow(ours, |_| {}, || false).is_none());
    }

    #[test]
    fn who_only_waits_ends_as_soon_as_that_is_wanted() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let waited = scope.spawn(move || {
                telling(&theirs, |progress| progress.wait(Duration::from_secs(3600)))
            });
            assert!(follow(ours, |_| {}, || true).is_none());
            assert!(!waited.join().unwrap(), "it did not wait for an hour");
        });
        let progress = Progress::default();
        assert!(progress.wait(Duration::from_millis(1)));
    }
}
