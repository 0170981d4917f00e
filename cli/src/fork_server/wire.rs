//! What a command and its server of sessions say to each other: one JSON object a line.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What the command wants.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// A session.
    Begin {
        /// What it is called from now on.
        number: u64,
        /// Its command line.
        words: Vec<OsString>,
        /// Files for its output, and for what it says.
        output: Option<OsString>,
        /// What it says.
        log: Option<OsString>,
        /// What it writes down.
        recording: OsString,
    },
    /// This session is to end.
    End(u64),
    /// It is to mark this moment.
    Mark(u64),
}

/// What the server tells.
#[derive(Debug, Serialize, Deserialize)]
pub enum News {
    /// A session is a process now.
    Begun {
        /// Which.
        number: u64,
        /// The process.
        pid: i32,
    },
    /// It could not be forked.
    Failed {
        /// Which.
        number: u64,
        /// Why.
        errno: i32,
    },
    /// It has ended.
    Ended {
        /// Which.
        number: u64,
        /// How, as wait(2) says.
        status: i32,
    },
}

/// One end.
#[derive(Debug)]
pub struct Wire {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Wire {
    /// Over this connection.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Says something.
    ///
    /// # Errors
    /// If the other end is closed.
    pub fn send(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(what)?;
        text.push(b'\n');
        self.stream.write_all(&text)
    }

    /// What was said, after up to `time`; and whether the other end is closed.
    pub fn hear<T: DeserializeOwned>(&mut self, time: PollTimeout) -> (Vec<T>, bool) {
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut fds, time), Ok(1)) {
            return (Vec::new(), false);
        }
        let mut bytes = [0; 4096];
        let is_over = match self.stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(length) => {
                self.unread.extend_from_slice(&bytes[..length]);
                false
            }
            Err(error) => error.kind() != io::ErrorKind::Interrupted,
        };
        (self.take(), is_over)
    }

    /// Lines that are whole.
    fn take<T: DeserializeOwned>(&mut self) -> Vec<T> {
        let end = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.unread.drain(..end).collect();
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        // Both ends are the same file: every line is one of ours.
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn lines_arrive_whole_also_with_names_that_are_no_text_and_the_end_is_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(ours);
        let recording = OsString::from_vec(b"/tmp/\xff\n.heapattach".to_vec());
        let order = Order::Begin {
            number: 7,
            words: vec!["-p".into(), "4711".into()],
            output: None,
            log: None,
            recording: recording.clone(),
        };
        let mut text = serde_json::to_vec(&order).unwrap();
        text.extend(b"\n{\"End\":7}\n");
        let (first, rest) = text.split_at(text.len() - 4);
        theirs.write_all(first).unwrap();
        let (heard, is_over) = wire.hear::<Order>(PollTimeout::NONE);
        assert!(!is_over);
        let [Order::Begin { number: 7, recording: told, .. }] = heard.as_slice() else {
            panic!("{heard:?}")
        };
        assert_eq!(*told, recording);
        assert!(wire.hear::<Order>(PollTimeout::ZERO).0.is_empty(), "the other is not whole");
        theirs.write_all(rest).unwrap();
        assert!(matches!(*wire.hear(PollTimeout::NONE).0, [Order::End(7)]));
        drop(theirs);
        assert!(wire.hear::<Order>(PollTimeout::NONE).1);
    }
}
