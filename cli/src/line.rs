//! The tracing process's line to the command.

use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use heapattach_injector::target::Target;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::message::{Message, Request};

/// The line to the command.
#[derive(Debug)]
pub struct Line(UnixStream);

impl Line {
    /// Over this connection.
    pub fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Tells the command something.
    pub fn send(&mut self, message: &Message) {
        // A command that is gone hears nothing; its end is noticed by the poll.
        if let Ok(mut text) = serde_json::to_vec(message) {
            text.push(b'\n');
            let _ = self.0.write_all(&text);
        }
    }

    /// As [`Line::listen`]; with `is_kept` it also ends when a traced thread stops.
    pub fn listen_beside(
        &mut self,
        target: &Target,
        is_kept: bool,
        time: Duration,
    ) -> Option<Heard> {
        if is_kept {
            let mut fds = [
                PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
                PollFd::new(target.waiter.changes().as_fd(), PollFlags::POLLIN),
            ];
            let millis = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
            let _ = poll(&mut fds, PollTimeout::from(millis));
        }
        self.listen(target, if is_kept { Duration::ZERO } else { time })
    }

    /// Waits up to `time` for the command to say something, or the target to end; answers what the
    /// command said, if anything.
    pub fn listen(&mut self, target: &Target, time: Duration) -> Option<Heard> {
        let mut fds = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if let Some(pidfd) = target.process.pidfd() {
            fds.push(PollFd::new(pidfd.as_fd(), PollFlags::POLLIN));
        }
        let millis = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(millis));
        let spoke = fds[0].revents().is_some_and(|events| !events.is_empty());
        drop(fds);
        let mut word = [0];
        match spoke.then(|| self.0.read(&mut word)) {
            None => None,
            Some(Ok(1..)) if word[0] == Request::Mark as u8 => Some(Heard::Mark),
            Some(Ok(1..)) => Some(Heard::Detach),
            Some(Ok(0) | Err(_)) => Some(Heard::Gone),
        }
    }
}

/// What the command said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It wants the session to end.
    Detach,
    /// It wants this moment to be marked.
    Mark,
    /// It ended.
    Gone,
}
