//! How a session speaks to the command, or to the tracing thread that passes on what the sessions of a
//! whole family say.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use heapattach_injector::target::Target;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::EventFd,
};

use crate::client::message::{Message, Request};

/// The connection of one session: requests come in, messages go out.
#[derive(Debug)]
pub struct Line {
    ear: UnixStream,
    mouth: Option<Mouth>,
}

/// Where a session of a family speaks.
#[derive(Clone, Debug)]
pub struct Mouth {
    /// The number of the session that sends.
    pub member: usize,
    /// The queue to the tracing thread.
    pub desk: Sender<(usize, Message)>,
    /// Wakes that thread.
    pub bell: Arc<EventFd>,
}

impl Line {
    /// Over this connection.
    pub fn new(stream: UnixStream) -> Self {
        Self { ear: stream, mouth: None }
    }

    /// Within this process; requests come over a connection all the same.
    pub fn within(ear: UnixStream, mouth: Mouth) -> Self {
        Self { ear, mouth: Some(mouth) }
    }

    /// Tells something.
    pub fn send(&mut self, message: &Message) {
        if let Some(mouth) = &self.mouth {
            // The tracing thread ends after all others.
            let _ = mouth.desk.send((mouth.member, message.clone()));
            let _ = mouth.bell.write(1);
            return;
        }
        // A command that is gone hears nothing; its end is noticed by the poll.
        if let Ok(mut text) = serde_json::to_vec(message) {
            text.push(b'\n');
            let _ = self.ear.write_all(&text);
        }
    }

    /// As [`Line::hear`], after up to `time`; it also ends when `beside` is readable.
    pub fn listen_beside(&mut self, beside: BorrowedFd<'_>, time: Duration) -> Option<Heard> {
        let mut fds = [self.ear.as_fd(), beside].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let millis = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(millis));
        self.hear()
    }

    /// Waits up to `time` for the command to say something, or the target to end; answers what the
    /// command said, if anything.
    pub fn listen(&mut self, target: &Target, time: Duration) -> Option<Heard> {
        self.listen_for_end(target, time).0
    }

    /// The same, and whether the target has ended: from then on there is nothing to wait for.
    pub fn listen_for_end(&mut self, target: &Target, time: Duration) -> (Option<Heard>, bool) {
        let mut fds = vec![PollFd::new(self.ear.as_fd(), PollFlags::POLLIN)];
        if let Some(pidfd) = target.process.pidfd() {
            fds.push(PollFd::new(pidfd.as_fd(), PollFlags::POLLIN));
        }
        let millis = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(millis));
        let is_ready =
            |fd: Option<&PollFd<'_>>| fd.and_then(PollFd::revents).is_some_and(|e| !e.is_empty());
        let (spoke, has_ended) = (is_ready(fds.first()), is_ready(fds.get(1)));
        drop(fds);
        (if spoke { self.read() } else { None }, has_ended)
    }

    /// What was said meanwhile, if anything.
    pub fn hear(&mut self) -> Option<Heard> {
        let mut fds = [PollFd::new(self.ear.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::ZERO);
        let spoke = fds[0].revents().is_some_and(|events| !events.is_empty());
        if spoke { self.read() } else { None }
    }

    fn read(&mut self) -> Option<Heard> {
        let mut word = [0];
        match self.ear.read(&mut word) {
            Ok(1..) if word[0] == Request::Mark as u8 => Some(Heard::Mark),
            Ok(1..) => Some(Heard::Detach),
            Ok(0) | Err(_) => Some(Heard::Gone),
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }
}

/// A request from the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The session is to end.
    Detach,
    /// This moment is to be marked.
    Mark,
    /// The other end is closed.
    Gone,
}
