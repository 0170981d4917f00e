//! How a session speaks to the command, or to the tracing thread that passes on what the sessions of a
//! whole family say.

use std::{
    fmt,
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use heapattach_injector::target::Target;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        eventfd::EventFd,
        socket::{MsgFlags, send},
    },
};

use crate::client::message::{Message, Request};

/// What waits for a command that does not listen; beyond that messages are left out.
const MOST_UNSENT: usize = 1 << 20;

/// The connection of one session: requests come in, messages go out.
///
/// A command may be suspended, or its terminal may take nothing more. What it is told waits here then:
/// until the target is released nothing waits for the command.
#[derive(Debug)]
pub struct Line {
    ear: UnixStream,
    voice: Voice,
    unsent: Vec<u8>,
}

/// Where messages go.
#[derive(Debug)]
enum Voice {
    /// Over the connection.
    Wire,
    /// To the tracing thread.
    Member(Mouth),
    /// To what tells the user, in this process.
    Here(Teller),
}

/// Hears messages within this process.
struct Teller(Box<dyn FnMut(&Message) + Send>);

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

/// Where a session of a family speaks.
#[derive(Clone, Debug)]
pub struct Mouth {
    /// The number of the session that sends.
    pub member: usize,
    /// The queue to the tracing thread.
    pub messages: Sender<(usize, Message)>,
    /// Wakes that thread.
    pub bell: Arc<EventFd>,
}

impl Line {
    /// Over this connection.
    pub fn new(stream: UnixStream) -> Self {
        Self { ear: stream, voice: Voice::Wire, unsent: Vec::new() }
    }

    /// Within this process; requests come over a connection all the same.
    pub fn within(ear: UnixStream, mouth: Mouth) -> Self {
        Self { ear, voice: Voice::Member(mouth), unsent: Vec::new() }
    }

    /// Of a session whose messages are told by this very process; requests come over a connection all the same.
    pub fn telling(ear: UnixStream, tell: Box<dyn FnMut(&Message) + Send>) -> Self {
        Self { ear, voice: Voice::Here(Teller(tell)), unsent: Vec::new() }
    }

    /// Tells something.
    pub fn send(&mut self, message: &Message) {
        match &mut self.voice {
            Voice::Member(mouth) => {
                // The tracing thread ends after all others.
                let _ = mouth.messages.send((mouth.member, message.clone()));
                let _ = mouth.bell.write(1);
            }
            Voice::Here(Teller(tell)) => tell(message),
            Voice::Wire => self.write(message),
        }
    }

    fn write(&mut self, message: &Message) {
        self.send_rest();
        let is_late = !self.unsent.is_empty();
        let is_last = matches!(message, Message::Finished(_));
        let is_passing = matches!(
            message,
            Message::Progress { .. } | Message::Looking { .. } | Message::Fetching(_)
        );
        if !is_last && is_late && (is_passing || self.unsent.len() > MOST_UNSENT) {
            return;
        }
        if let Ok(text) = serde_json::to_vec(message) {
            self.unsent.extend(text);
            self.unsent.push(b'\n');
        }
        if is_last {
            // A command that is gone hears nothing; its end is noticed by the poll.
            let _ = self.ear.write_all(&std::mem::take(&mut self.unsent));
        } else {
            self.send_rest();
        }
    }

    /// Sends what finds room now.
    fn send_rest(&mut self) {
        while !self.unsent.is_empty() {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(self.ear.as_raw_fd(), &self.unsent, flags) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => self.unsent.clear(),
            }
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
        self.listen_for_end(target, None, time).0
    }

    /// The same, and whether the target has ended: from then on there is nothing to wait for. It also ends when
    /// `beside` is readable.
    pub fn listen_for_end(
        &mut self,
        target: &Target,
        beside: Option<BorrowedFd<'_>>,
        time: Duration,
    ) -> (Option<Heard>, bool) {
        self.send_rest();
        let pidfd = target.process.pidfd().map(|pidfd| pidfd.as_fd());
        let has_pidfd = pidfd.is_some();
        let all = [Some(self.ear.as_fd()), pidfd, beside].into_iter().flatten();
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let millis = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(millis));
        let is_ready =
            |fd: Option<&PollFd<'_>>| fd.and_then(PollFd::revents).is_some_and(|e| !e.is_empty());
        let (spoke, has_ended) = (is_ready(fds.first()), has_pidfd && is_ready(fds.get(1)));
        drop(fds);
        (if spoke { self.read() } else { None }, has_ended)
    }

    /// What was said meanwhile, if anything.
    pub fn hear(&mut self) -> Option<Heard> {
        self.send_rest();
        let mut fds = [PollFd::new(self.ear.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::ZERO);
        let spoke = fds[0].revents().is_some_and(|events| !events.is_empty());
        if spoke { self.read() } else { None }
    }

    fn read(&mut self) -> Option<Heard> {
        let mut word = [0];
        match self.ear.read(&mut word) {
            Ok(1..) if word[0] == Request::Mark as u8 => Some(Heard::Mark),
            Ok(1..) if word[0] == Request::Over as u8 => Some(Heard::Over),
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
    /// The session is to end, as if its time were over.
    Over,
    /// The other end is closed.
    Gone,
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use heapattach_ledger::Mark;
    use heapattach_report::Report;

    #[test]
    fn a_command_that_does_not_listen_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut line = Line::new(ours);
        let mark = |at_ms| Mark { at_ms, why: "x".repeat(1000) };
        // Much more than a socket holds.
        for at_ms in 0..2000 {
            line.send(&Message::Marked(mark(at_ms)));
            line.send(&Message::Progress { calls: at_ms, bytes: 0 });
        }
        assert!(line.unsent.len() > 4096 && line.unsent.len() < MOST_UNSENT + 4096);
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(theirs).lines().map(Result::unwrap);
            lines.map(|text| serde_json::from_str(&text).unwrap()).collect::<Vec<Message>>()
        });
        line.send(&Message::Finished(Box::new(Report::new(7, String::new()))));
        drop(line);
        let heard = reader.join().unwrap();
        let marks = heard.iter().filter_map(|message| match message {
            Message::Marked(mark) => Some(mark.at_ms),
            _ => None,
        });
        // All that waited came whole and in its order.
        assert!(marks.clone().eq(0..marks.clone().count() as u64) && marks.count() > 500);
        assert!(matches!(heard.last(), Some(Message::Finished(report)) if report.pid == 7));
    }
}
