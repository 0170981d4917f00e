//! The server: forks a process for each order, and tells how it ended.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write, stdin},
    os::{fd::AsFd, unix::net::UnixStream},
};

use heapattach_session::{
    client::{claim::Claim, message::Request},
    fork::{self, Side},
    own_memory,
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, dup2_stdin},
};

use super::wire::{News, Order, Wire};
use crate::{exit_status::Exit, payload};

/// The word by which the command starts it; it is not for users.
pub const WORD: &str = "--fork-server";

/// A session that has not ended.
#[derive(Debug)]
struct Live {
    number: u64,
    line: UnixStream,
    /// Until the target is stopped for the first time.
    claim: Option<Claim>,
    recording: OsString,
    /// Whether it was ended before it ever touched its target.
    is_unbegun: bool,
}

/// What a session is to do.
#[derive(Debug)]
pub struct Orders {
    /// What it is asked comes over this.
    pub line: UnixStream,
    /// Who comes first: its end, or the first stop of the target.
    pub claim: Option<Claim>,
    /// Its command line.
    pub words: Vec<OsString>,
    /// Files for its output and for what it says.
    pub output: Option<OsString>,
    /// What it says.
    pub log: Option<OsString>,
}

/// What has become of the process.
#[derive(Debug)]
pub enum After {
    /// The server is at its end.
    Over(Exit),
    /// It is a session now.
    Session(Box<Orders>),
}

/// What comes over standard input is done, until that is closed. Returns in each session, too.
pub fn run() -> After {
    // Signals of the terminal are for the command, which tells what is to be done; and those that end all
    // processes of a service, too.
    fork::leave_session();
    let served = begin().and_then(|(wire, ends)| serve(wire, &ends));
    served.unwrap_or(After::Over(Exit::Failed))
}

fn begin() -> io::Result<(Wire, SignalFd)> {
    let wire = stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    let ended: SigSet = [Signal::SIGCHLD].into_iter().collect();
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let ends = SignalFd::with_flags(&ended, flags)?;
    own_memory::share_heap();
    // Whatever is here before a fork is there once for all sessions.
    heapattach_entry::build_tables();
    payload::image();
    own_memory::trim();
    Ok((Wire::new(UnixStream::from(wire)), ends))
}

/// Everything of the server is closed when this returns: a session is not to have the lines of others.
fn serve(mut wire: Wire, ends: &SignalFd) -> io::Result<After> {
    let mut all: HashMap<Pid, Live> = HashMap::new();
    loop {
        let mut fds = [wire.as_fd(), ends.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        while let Ok(Some(_)) = ends.read_signal() {}
        while let Some((pid, status)) = ended() {
            let Some(one) = all.remove(&pid) else { continue };
            let status = if one.is_unbegun { unbegun(&one) } else { status };
            wire.send(&News::Ended { number: one.number, status })?;
        }
        let (orders, is_over) = wire.hear::<Order>(PollTimeout::ZERO);
        for order in orders {
            match order {
                Order::End(number) => end(&mut all, number),
                Order::Mark(number) => {
                    let line = all.values().find(|one| one.number == number).map(|one| &one.line);
                    let _ = line.map(|mut line| line.write_all(&[Request::Mark as u8]));
                }
                Order::Begin { number, words, output, log, recording } => {
                    let claim = Claim::new().ok();
                    match fork::fork_tracer() {
                        Ok(Side::Tracer(line)) => {
                            let orders = Orders { line, claim, words, output, log };
                            return Ok(After::Session(Box::new(orders)));
                        }
                        Ok(Side::Front(line, pid)) => {
                            let is_unbegun = false;
                            all.insert(pid, Live { number, line, claim, recording, is_unbegun });
                            wire.send(&News::Begun { number, pid: pid.as_raw() })?;
                        }
                        Err(error) => {
                            let errno = error.raw_os_error().unwrap_or(Errno::EAGAIN as i32);
                            wire.send(&News::Failed { number, errno })?;
                        }
                    }
                }
            }
        }
        if is_over {
            return Ok(After::Over(Exit::Done));
        }
    }
}

/// A process that has ended, and how.
fn ended() -> Option<(Pid, i32)> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(pid, code)) => Some((pid, code << 8)),
        Ok(WaitStatus::Signaled(pid, signal, _)) => Some((pid, signal as i32)),
        _ => None,
    }
}

/// Has a session end: at once, if it has not touched its target and never will.
fn end(all: &mut HashMap<Pid, Live>, number: u64) {
    let Some((pid, one)) = all.iter_mut().find(|(_, one)| one.number == number) else { return };
    if one.claim.take().is_some_and(|claim| claim.take()) {
        one.is_unbegun = true;
        let _ = kill(*pid, Signal::SIGKILL);
    } else if one.line.write_all(&[Request::Detach as u8]).is_err() {
        // The session is over, and what it writes its result to may never be ready.
        let _ = kill(*pid, Signal::SIGINT);
    }
}

/// What there is of a session that never began, and as what it counts.
fn unbegun(one: &Live) -> i32 {
    let _ = fs::remove_file(&one.recording);
    i32::from(Exit::Interrupted.code()) << 8
}
