//! Who comes first: Ctrl-C, or the first stop of the target. The command and the tracing process share
//! a pipe with one byte in it, and the kernel gives that byte to one of them: if the command has it,
//! the target is never touched, no matter what the tracing process is doing then.

use std::{
    io::Read,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{pipe2, write},
};

/// The pipe, one for both sides of a fork.
#[derive(Debug)]
pub struct Claim(OwnedFd);

impl Claim {
    /// A byte that neither process has taken yet.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`.
    pub fn new() -> Result<Self, Errno> {
        let (byte, mouth) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        write(&mouth, &[1])?;
        Ok(Self(byte))
    }

    /// Takes it, if it is there to be taken.
    pub fn take(&self) -> bool {
        let Ok(byte) = self.0.try_clone() else { return false };
        matches!(std::fs::File::from(byte).read(&mut [0]), Ok(1))
    }

    /// The question that the tracing process has answered before it stops the target: whether the
    /// command is still there, and has not said otherwise.
    pub fn question(self, line: Option<UnixStream>) -> impl FnOnce() -> bool + Send + 'static {
        move || !line.is_some_and(|line| is_gone(&line)) && self.take()
    }
}

/// Whether the other end is closed.
fn is_gone(line: &UnixStream) -> bool {
    let mut fds = [PollFd::new(line.as_fd(), PollFlags::empty())];
    let _ = poll(&mut fds, PollTimeout::ZERO);
    fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_once() {
        let claim = Claim::new().unwrap();
        let question = Claim(claim.0.try_clone().unwrap()).question(None);
        assert!(claim.take() && !claim.take() && !question());
    }

    #[test]
    fn nobody_stops_a_target_for_a_command_that_is_gone() {
        let ask = |is_there| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let ours = Some(ours).filter(|_| is_there);
            let answer = Claim::new().unwrap().question(Some(theirs))();
            drop(ours);
            answer
        };
        assert!(ask(true) && !ask(false));
    }
}
