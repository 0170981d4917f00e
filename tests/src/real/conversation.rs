//! A program that answers each line it is asked, the same to the same question: what it says before,
//! while and after heapattach looks at it is compared.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::programs::Program;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// So often it is asked before a session begins.
const WARM: usize = 100;
/// A program that has said nothing for so long has said all.
const QUIET: Duration = Duration::from_millis(400);

/// The conversation.
#[derive(Debug)]
pub struct Conversation {
    child: Child,
    output: ChildStdout,
    question: Vec<u8>,
    answer: Vec<u8>,
    /// What was said after the last answer.
    rest: Vec<u8>,
}

impl Conversation {
    /// Starts the program, and learns its answer.
    ///
    /// # Errors
    /// If it does not start, says nothing, or answers the second time otherwise than the first.
    pub fn start(program: &Program) -> io::Result<Self> {
        let mut command = Command::new(program.file);
        let words = program.words.iter().map(|word| program.place(word));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Some answer there.
        command.stderr(Stdio::null());
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let flags = OFlag::O_NONBLOCK;
        fcntl(&output, FcntlArg::F_SETFL(flags)).map_err(io::Error::from)?;
        let question = format!("{}\n", program.question).into_bytes();
        let mut this = Self { child, output, question, answer: Vec::new(), rest: Vec::new() };
        // A greeting comes with the first answer, and is not part of the second.
        this.say()?;
        this.hear_until_quiet()?;
        this.say()?;
        this.answer = this.hear_until_quiet()?;
        // Collectors have run by then, and what is begun at first use.
        this.ask(WARM)?;
        Ok(this)
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Asks so many times, and compares each answer.
    ///
    /// # Errors
    /// At the first that is another one, or does not come.
    pub fn ask(&mut self, times: usize) -> io::Result<()> {
        for _ in 0..times {
            self.say()?;
            let deadline = Instant::now() + PATIENCE;
            while self.rest.len() < self.answer.len() {
                if !self.hear(PATIENCE)? || Instant::now() > deadline {
                    return Err(self.complaint("no answer"));
                }
            }
            let said: Vec<u8> = self.rest.drain(..self.answer.len()).collect();
            if said != self.answer {
                return Err(self.complaint(&format!("{:?}", String::from_utf8_lossy(&said))));
            }
        }
        Ok(())
    }

    /// Lets it end, as it ends when no more requests come.
    ///
    /// # Errors
    /// If it does not.
    pub fn finish(mut self) -> io::Result<()> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err(self.complaint("does not end"));
            }
            let _ = self.hear(Duration::from_millis(20));
        }
        Ok(())
    }

    fn complaint(&mut self, what: &str) -> io::Error {
        let state = self.child.try_wait();
        let answer = String::from_utf8_lossy(&self.answer).into_owned();
        io::Error::other(format!("{what} instead of {answer:?}; it is {state:?}"))
    }

    fn say(&mut self) -> io::Result<()> {
        let input = self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(&self.question)?;
        input.flush()
    }

    fn hear_until_quiet(&mut self) -> io::Result<Vec<u8>> {
        if !self.hear(PATIENCE)? {
            return Err(self.complaint("nothing"));
        }
        while self.hear(QUIET)? {}
        Ok(std::mem::take(&mut self.rest))
    }

    /// Whether it said something within this time.
    fn hear(&mut self, patience: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        if poll(&mut fds, timeout).map_err(io::Error::from)? == 0 {
            return Ok(false);
        }
        let mut bytes = [0; 1 << 16];
        let length = self.output.read(&mut bytes)?;
        self.rest.extend_from_slice(&bytes[..length]);
        Ok(length > 0)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
