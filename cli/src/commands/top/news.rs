//! What happens while something is looked at, from all threads to one.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::mpsc::Sender,
    thread,
    time::{Duration, Instant},
};

use heapattach_text::printable::printable;
use heapattach_top::{Input, Listed, Snapshot, State};

use super::{process_list, recording::News as OfRecording, source::Source};

/// Of the time a source takes so much at most: one part in so many.
const SHARE: u32 = 20;
/// A line of a log is not longer, nor is so much read of it at once.
const LOG: u64 = 1 << 16;

/// One thing.
#[derive(Debug)]
pub enum News {
    /// The user does something.
    Input(Input),
    /// The terminal has another size.
    Resized,
    /// The terminal is gone.
    NoTerminal,
    /// More is known of a target, or it is otherwise with it: of one look, at once.
    Looked(usize, Vec<Snapshot>, Option<State>),
    /// The session of a target says something.
    Log(usize, String),
    /// The processes that there are, after so many milliseconds.
    Processes(u64, Vec<Listed>),
    /// A signal ends this.
    Told,
}

/// Looks at a source again and again, in a thread of its own, until it is over.
pub fn follow(target: usize, mut source: Source, interval: Duration, to: Sender<News>) {
    let look = move || {
        let mut log = source.log().map(Log::new);
        let mut before = State::Waiting;
        loop {
            let began = Instant::now();
            let (OfRecording { snapshots, state }, failed) = match source.look() {
                Ok(news) => (news, None),
                Err(why) => (OfRecording::default(), Some(why)),
            };
            let has_any = !snapshots.is_empty();
            let lines = log.iter_mut().flat_map(Log::more);
            let mut told = lines.map(|line| News::Log(target, line)).collect::<Vec<_>>();
            // What is not there yet is waited for; what was there and is not any more is told.
            let state = state.or(match failed {
                Some(why) if source.tells_failures() => Some(State::Away(why)),
                _ if has_any => Some(State::Live),
                _ => None,
            });
            let is_over = matches!(state, Some(State::Over(_)));
            let state = state.filter(|state| *state != before);
            before = state.clone().unwrap_or(before);
            if has_any || state.is_some() {
                told.push(News::Looked(target, snapshots, state));
            }
            if told.into_iter().any(|one| to.send(one).is_err()) || is_over && source.ends() {
                return;
            }
            thread::sleep(interval.max(began.elapsed() * SHARE));
        }
    };
    // Without a thread nothing becomes known.
    let _ = thread::Builder::new().name("source".to_owned()).spawn(look);
}

/// Tells the processes that there are, again and again.
pub fn follow_processes(interval: Duration, to: Sender<News>) {
    let look = move || {
        let began = Instant::now();
        let mut list = process_list::ProcessList::default();
        loop {
            let looked = Instant::now();
            let at = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            if to.send(News::Processes(at, list.read())).is_err() {
                return;
            }
            thread::sleep(interval.max(looked.elapsed() * SHARE));
        }
    };
    let _ = thread::Builder::new().name("processes".to_owned()).spawn(look);
}

/// A file that a session writes lines to.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    read: u64,
}

impl Log {
    fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// Lines that were not there the last time.
    fn more(&mut self) -> Vec<String> {
        let Ok(mut file) = File::open(&self.path) else { return Vec::new() };
        let mut text = Vec::new();
        let seeks = file.seek(SeekFrom::Start(self.read)).is_ok();
        if !seeks || file.take(LOG).read_to_end(&mut text).is_err() {
            return Vec::new();
        }
        // A line that is being written is read when it is whole.
        let Some(end) = text.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        self.read += end as u64 + 1;
        let text = String::from_utf8_lossy(&text[..end]).into_owned();
        text.lines().map(|line| printable(line.trim_start_matches("heapattach: "))).collect()
    }
}
