//! The processes we start: the one that traces, and the program of `run`.
//!
//! # Safety
//! fork(2) copies one thread only. All forks happen before this program has started a second one,
//! so no lock can be held by a thread that the child lacks.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, OsString},
    io::{self, Read, Write},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStringExt, net::UnixStream},
    },
    time::{Duration, Instant},
};

use heapattach_report::Status;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, poll},
    sys::signal::{SigHandler, Signal, signal},
    unistd::{ForkResult, Pid, fork, pipe2, setsid},
};

/// Which side of a fork we are on.
#[derive(Debug)]
pub enum Side {
    /// The command, with the line to the tracing process, and that process.
    Front(UnixStream, Pid),
    /// The tracing process, with the line to the command.
    Tracer(UnixStream),
}

/// Forks the tracing process. It stays in our session until [`leave_session`].
///
/// # Errors
/// `EAGAIN`, `EMFILE`.
pub fn fork_tracer() -> io::Result<Side> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: no other thread exists yet (`Safety` at the top).
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            drop(theirs);
            Ok(Side::Front(ours, child))
        }
        ForkResult::Child => {
            drop(ours);
            Ok(Side::Tracer(theirs))
        }
    }
}

/// Makes the tracing process one that no terminal signal reaches.
pub fn leave_session() {
    // Fails only for a leader of its group, which a forked process is not.
    let _ = setsid();
    // Nothing but SIGKILL ends it; the command tells it when to stop by closing the line.
    let _ = nix::sys::signal::SigSet::all().thread_block();
}

/// For the last words of a program that is just about to end, in milliseconds.
const LAST_WORDS: u16 = 1000;

/// A program that has been forked and waits to be let go.
#[derive(Debug)]
pub struct Waiting {
    /// The child.
    pub pid: i32,
    gate: OwnedFd,
    failure: OwnedFd,
}

/// Forks the program of `run`; it execs when [`Waiting::go`] is called.
///
/// # Errors
/// `EAGAIN`, `EMFILE`, or `EINVAL` for a zero byte in an argument.
pub fn fork_program(command: &[OsString]) -> io::Result<Waiting> {
    let words: Result<Vec<CString>, _> =
        command.iter().map(|word| CString::new(word.clone().into_vec())).collect();
    let words = words.map_err(|_| Errno::EINVAL)?;
    let program = words.first().ok_or(Errno::EINVAL)?;
    let (gate_out, gate_in) = pipe2(OFlag::O_CLOEXEC)?;
    let (failure_out, failure_in) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: no other thread exists yet (`Safety` at the top).
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            Ok(Waiting { pid: child.as_raw(), gate: gate_in, failure: failure_out })
        }
        ForkResult::Child => {
            drop((gate_in, failure_out));
            become_program(program, &words, gate_out, failure_in)
        }
    }
}

fn become_program(program: &CString, words: &[CString], gate: OwnedFd, failure: OwnedFd) -> ! {
    let mut byte = [0];
    let opened = std::fs::File::from(gate).read_exact(&mut byte);
    if opened.is_ok() {
        // Rust ignores SIGPIPE in its own programs; this one is to find it as usual.
        // SAFETY: setting a default action runs no code of ours.
        let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
        let errno = nix::unistd::execvp(program, words).map_or_else(|e| e, |never| match never {});
        let _ = std::fs::File::from(failure).write_all(&(errno as i32).to_le_bytes());
    }
    // SAFETY: ends the process at once, without handlers of a parent's making.
    unsafe { libc::_exit(127) }
}

/// How long it takes to clone this process, with the memory that it has now, and to end that.
pub fn fork_time() -> Option<Duration> {
    let began = Instant::now();
    // SAFETY: no other thread exists yet (`Safety` at the top), and the child does nothing but end.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            let took = began.elapsed();
            let _ = nix::sys::wait::waitpid(child, None);
            Some(took)
        }
        // SAFETY: ends the process at once, without handlers of a parent's making.
        Ok(ForkResult::Child) => unsafe { libc::_exit(0) },
        Err(_) => None,
    }
}

impl Waiting {
    /// Opens the gate.
    ///
    /// # Errors
    /// `EPIPE` if the child is gone.
    pub fn go(&self) -> io::Result<()> {
        nix::unistd::write(&self.gate, &[1]).map(drop).map_err(Into::into)
    }

    /// Why the program could not be executed, if it could not: call this after it ended. One that stands
    /// stopped, since the command that started it was killed meanwhile, says nothing and is not waited for.
    pub fn exec_error(self) -> Option<Errno> {
        let Self { failure, gate, .. } = self;
        drop(gate);
        let mut fds = [PollFd::new(failure.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, LAST_WORDS) != Ok(1) {
            return None;
        }
        let mut bytes = [0; 4];
        let read = std::fs::File::from(failure).read_exact(&mut bytes);
        read.ok().map(|()| Errno::from_raw(i32::from_le_bytes(bytes)))
    }
}

/// What env(1) says of a program that cannot be executed.
pub fn exec_status(errno: Errno) -> Status {
    if errno == Errno::ENOENT { Status::NotFound } else { Status::CannotExecute }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_neither_execs_nor_ends_is_not_waited_for() {
        let (_, gate) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let (failure, mut said) = io::pipe().unwrap();
        let waiting =
            |gate: OwnedFd| Waiting { pid: 0, gate, failure: failure.try_clone().unwrap().into() };
        assert_eq!(waiting(gate.try_clone().unwrap()).exec_error(), None);
        said.write_all(&(Errno::ENOENT as i32).to_le_bytes()).unwrap();
        assert_eq!(waiting(gate.try_clone().unwrap()).exec_error(), Some(Errno::ENOENT));
        drop(said);
        assert_eq!(waiting(gate).exec_error(), None, "it was executed");
    }
}
