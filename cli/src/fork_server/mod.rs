//! Sessions of a command that has several: each is a process forked from one that has the tables of all, and shares
//! the memory of these with the others until it writes to it. What becomes of one process is no matter of the others.
//!
//! ```text
//! command -- orders --> fork server -- fork --> session: stops its target, and undoes it
//!         <-- news ----             -- line --> told to end or to mark; closed, it ends by itself
//! ```
//!
//! The server begins no session itself and waits for orders and ends only: an idle one never wakes. If the command
//! ends, it does, too, and with it every line.

mod server;
mod wire;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    rc::Rc,
};

use nix::poll::PollTimeout;

use wire::{News, Order, Wire};

pub use server::{After, Orders, WORD, run};

/// What the server was killed by, as far as a session is concerned whose end it has not told.
const KILLED: i32 = 9;

/// What a session is told.
#[derive(Debug)]
pub struct Begin {
    /// The command line, without the name of the command.
    pub words: Vec<OsString>,
    /// A file that its output goes to, and one for what it says; else the first is nowhere, and the second is that of
    /// this process.
    pub output: Option<PathBuf>,
    /// What it says.
    pub log: Option<PathBuf>,
    /// What it writes down, which is removed if it never begins.
    pub recording: PathBuf,
}

/// The server of one command.
#[derive(Clone, Debug)]
pub struct ForkServer(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    wire: RefCell<Wire>,
    bell: OwnedFd,
    count: Cell<u64>,
    ended: RefCell<HashMap<u64, ExitStatus>>,
    is_gone: Cell<bool>,
}

/// A session.
#[derive(Debug)]
pub struct Member {
    server: ForkServer,
    number: u64,
    pid: i32,
}

impl ForkServer {
    /// The server that there is, or a new one in its place.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn of(known: &mut Option<Self>) -> io::Result<&Self> {
        if known.as_ref().is_none_or(Self::is_gone) {
            *known = None;
        }
        match known {
            Some(server) => Ok(server),
            none => Ok(none.insert(Self::start()?)),
        }
    }

    fn start() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORD).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        command.spawn()?;
        let bell = ours.as_fd().try_clone_to_owned()?;
        Ok(Self(Rc::new(Inner {
            wire: RefCell::new(Wire::new(ours)),
            bell,
            count: Cell::new(0),
            ended: RefCell::default(),
            is_gone: Cell::new(false),
        })))
    }

    /// Begins a session.
    ///
    /// # Errors
    /// If it could not be forked, or the server is gone.
    pub fn begin(&self, begin: Begin) -> io::Result<Member> {
        let number = self.0.count.get();
        self.0.count.set(number + 1);
        let Begin { words, output, log, recording } = begin;
        let (output, log) = (output.map(OsString::from), log.map(OsString::from));
        let order = Order::Begin { number, words, output, log, recording: recording.into() };
        self.0.wire.borrow_mut().send(&order)?;
        loop {
            match self.look(PollTimeout::NONE, number) {
                Some(Ok(pid)) => return Ok(Member { server: self.clone(), number, pid }),
                Some(Err(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                None if self.is_gone() => return Err(io::ErrorKind::BrokenPipe.into()),
                None => {}
            }
        }
    }

    /// Whether it has ended: no session can be begun by it any more.
    pub fn is_gone(&self) -> bool {
        self.0.is_gone.get()
    }

    /// Hears which sessions have ended.
    pub fn hear(&self) {
        self.look(PollTimeout::ZERO, u64::MAX);
    }

    /// Hears what is told within that time; answers what became of the session that was to begin.
    fn look(&self, time: PollTimeout, begun: u64) -> Option<Result<i32, i32>> {
        let (all, is_over) = self.0.wire.borrow_mut().hear::<News>(time);
        let mut answer = None;
        for news in all {
            match news {
                News::Begun { number, pid } if number == begun => answer = Some(Ok(pid)),
                News::Failed { number, errno } if number == begun => answer = Some(Err(errno)),
                News::Begun { .. } | News::Failed { .. } => {}
                News::Ended { number, status } => {
                    let status = ExitStatus::from_raw(status);
                    self.0.ended.borrow_mut().insert(number, status);
                }
            }
        }
        if is_over {
            self.0.is_gone.set(true);
        }
        answer
    }

    fn tell(&self, order: &Order) {
        // One that is gone is noticed by those who ask for an end.
        let _ = self.0.wire.borrow_mut().send(order);
    }
}

/// Readable when a session has ended.
impl AsFd for ForkServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }
}

impl Member {
    /// Its process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Has it detach.
    pub fn end(&self) {
        self.server.tell(&Order::End(self.number));
    }

    /// Has it mark this moment.
    pub fn mark(&self) {
        self.server.tell(&Order::Mark(self.number));
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.server.hear();
        let told = self.server.0.ended.borrow().get(&self.number).copied();
        told.or_else(|| self.server.is_gone().then(|| ExitStatus::from_raw(KILLED)))
    }
}
