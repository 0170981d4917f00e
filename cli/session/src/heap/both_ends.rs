//! Moments before and after a session, taken by a process of its own: it is forked before anything else,
//! since nothing is forked later, and takes a moment whenever the command wants one.
//!
//! Before the session there are no hooks yet, and after it none any more: each look finds the process as
//! it is by itself.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
};

use heapattach_injector::target::Target;
use heapattach_report::CensusReport;
use nix::{sys::wait::waitpid, unistd::Pid};

use super::{HeapOptions, take};
use crate::fork;

/// Longer results are none.
const LONGEST: u64 = 256 << 20;
/// What the command sends for a moment.
const WANTED: [u8; 1] = [b'm'];

/// Takes a moment whenever one is wanted, until the command closes the line or is gone.
pub fn serve(mut line: UnixStream, target: &Target, options: &HeapOptions) {
    fork::leave_session();
    let mut wanted = WANTED;
    while line.read_exact(&mut wanted).is_ok() {
        let text = serde_json::to_vec(&take(target, options)).unwrap_or_default();
        let length = (text.len() as u64).to_le_bytes();
        if line.write_all(&length).and_then(|()| line.write_all(&text)).is_err() {
            break;
        }
    }
    heapattach_process::fault::summary();
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
        self.line.write_all(&WANTED).ok()?;
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
