//! What the tracing process tells the command: now and then how much memory it has read, and at last the result.
//! A line of JSON each.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use heapattach_report::CensusReport;
use heapattach_text::quantity;
use serde::{Deserialize, Serialize};

/// Between two words on how much was read.
const PAUSE: Duration = Duration::from_millis(100);
/// Longer results are none.
const LONGEST: u64 = 256 << 20;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// So many bytes were read.
    Read(u64),
    /// The result.
    Done(Box<CensusReport>),
}

/// Does something that takes long, which counts the bytes it reads, and tells the command of them meanwhile.
pub fn telling<T>(mut line: &UnixStream, work: impl FnOnce(&Arc<AtomicU64>) -> T) -> T {
    let read = Arc::new(AtomicU64::new(0));
    let (end, ended) = channel::<()>();
    thread::scope(|scope| {
        let told = Arc::clone(&read);
        let tell = move || {
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if send(&mut line, &Message::Read(told.load(Relaxed))).is_err() {
                    return;
                }
            }
        };
        // Without a thread nothing is told meanwhile.
        let _ = thread::Builder::new().name("progress".to_owned()).spawn_scoped(scope, tell);
        let done = work(&read);
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

/// The result of the tracing process, with a word to the user how far it is; `None` if it died.
pub fn follow(line: UnixStream, mut go_on: impl FnMut(String)) -> Option<CensusReport> {
    let mut lines = BufReader::new(line.take(LONGEST));
    loop {
        let mut text = Vec::new();
        lines.read_until(b'\n', &mut text).ok()?;
        match serde_json::from_slice(&text).ok()? {
            Message::Read(bytes) => {
                go_on(format!("looking through memory: {} read", quantity::bytes(bytes)));
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
                let report = telling(&theirs, |read| {
                    read.store(3 << 20, Relaxed);
                    // It goes on until the user has seen it.
                    heard.recv().unwrap();
                    CensusReport::new(7, "app".to_owned())
                });
                conclude(&theirs, report);
            });
            let mut words = Vec::new();
            let report = follow(ours, |word| {
                if word.ends_with(": 3.0 MiB read") {
                    let _ = told.send(());
                }
                words.push(word);
            });
            assert_eq!(report.unwrap().pid, 7);
            assert!(words.iter().any(|word| word == "looking through memory: 3.0 MiB read"));
        });
    }

    #[test]
    fn a_tracing_process_that_dies_has_no_result() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&mut &theirs, &Message::Read(1)).unwrap();
        drop(theirs);
        assert!(follow(ours, |_| {}).is_none());
    }
}
