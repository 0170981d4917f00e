//! Moments before and after a session, taken by a process of its own: it is forked before anything else,
//! since nothing is forked later, and takes a moment whenever the command wants one.
//!
//! Before the session there are no hooks yet, and after it none any more: each look finds the process as
//! it is by itself.

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::Arc,
    time::{Duration, Instant},
};

use heapattach_injector::target::Target;
use heapattach_report::{CensusReport, ColdReport};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::wait::waitpid,
    unistd::Pid,
};

use super::{HeapOptions, cold::Watching, progress::Progress, take, take_after};
use crate::fork;

/// Longer results are none.
const LONGEST: u64 = 256 << 20;
/// What the command sends for a moment, for one after it was watched what is written, and if it was watched long enough.
const WANTED: u8 = b'm';
const WATCHED: u8 = b'w';
const ENOUGH: u8 = b'e';
/// Between two questions whether that is so.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes a moment whenever one is wanted, until the command closes the line or is gone.
pub fn serve(mut line: UnixStream, target: &Target, options: &HeapOptions) {
    fork::leave_session();
    let mut wanted = [0];
    while line.read_exact(&mut wanted).is_ok() {
        let report = match (wanted[0], options.cold) {
            (WATCHED, Some(time)) => take_watched(&line, target, options, time),
            (ENOUGH, _) => continue,
            _ => take(target, &HeapOptions { cold: None, ..options.clone() }),
        };
        let text = serde_json::to_vec(&report).unwrap_or_default();
        let length = (text.len() as u64).to_le_bytes();
        if line.write_all(&length).and_then(|()| line.write_all(&text)).is_err() {
            break;
        }
    }
    heapattach_process::fault::summary();
}

/// The moment that is after so much time, and what was not written meanwhile.
fn take_watched(
    line: &UnixStream,
    target: &Target,
    options: &HeapOptions,
    time: Duration,
) -> CensusReport {
    let ended = Watching::begin(target).and_then(|watching| {
        wait(line, time);
        watching.end()
    });
    let (cold, error) = ended.map_or_else(|(_, why)| (None, Some(why)), |cold| (Some(cold), None));
    let report = CensusReport::new(target.process.pid(), target.process.command());
    let mut report =
        take_after(target, options, (cold.map(Arc::new), &Progress::default()), report);
    if error.is_some() {
        report.cold = Some(ColdReport { error, ..ColdReport::default() });
    }
    report
}

/// For so long, or until it is enough.
fn wait(mut line: &UnixStream, time: Duration) {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || line.set_read_timeout(Some(left.min(PAUSE))).is_err() {
            break;
        }
        match line.read(&mut [0]) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The command is gone, or has it that this is enough.
            Ok(_) | Err(_) => break,
        }
    }
    let _ = line.set_read_timeout(None);
}

/// The command's side.
#[derive(Debug)]
pub struct BothEnds {
    line: UnixStream,
    process: Pid,
    /// The command. What it forks later has a copy of all of this, and must not end it.
    owner: Pid,
}

impl BothEnds {
    /// Of the process that takes them.
    pub fn new(line: UnixStream, process: Pid) -> Self {
        Self { line, process, owner: Pid::this() }
    }

    /// The moment that is now; `None` if the process that takes it died.
    pub fn take(&mut self) -> Option<CensusReport> {
        self.line.write_all(&[WANTED]).ok()?;
        self.answer()
    }

    /// The moment that is after it was watched what is written, for the time that its options say, or until `is_over`.
    pub fn take_watched(&mut self, is_over: impl Fn() -> bool) -> Option<CensusReport> {
        self.line.write_all(&[WATCHED]).ok()?;
        let mut is_told = false;
        loop {
            let mut ready = [PollFd::new(self.line.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, PollTimeout::from(100_u8)) {
                Ok(0) | Err(Errno::EINTR) if !is_told && is_over() => {
                    self.line.write_all(&[ENOUGH]).ok()?;
                    is_told = true;
                }
                Ok(0) | Err(Errno::EINTR) => {}
                _ => return self.answer(),
            }
        }
    }

    fn answer(&mut self) -> Option<CensusReport> {
        let mut length = [0; 8];
        self.line.read_exact(&mut length).ok()?;
        let length = Some(u64::from_le_bytes(length)).filter(|&length| length <= LONGEST)?;
        let mut text = Vec::new();
        Read::by_ref(&mut self.line).take(length).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Drop for BothEnds {
    fn drop(&mut self) {
        if Pid::this() == self.owner {
            let _ = self.line.shutdown(Shutdown::Both);
            let _ = waitpid(self.process, None);
        }
    }
}
