//! A program and whatever it forks and execs, traced by one thread for as long as they are
//! followed: it lets everything run on at once, but for processes that have just been born or have
//! just execed. Each of those is handed out, stopped, with a lease ([`crate::trace::delegated`]).
//!
//! A traced program pays for its signals, its threads and its children, each of which stops it for
//! a moment; for nothing else. If this process dies, the kernel lets everything run on.

mod ends;
mod happenings;
mod orders;
mod walks;

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        ptrace::Options,
    },
};

use crate::trace::{
    delegated::{Lease, Mailbox, Order},
    insist::insist,
    target::may_suspend_seccomp,
    tracer::Tracer,
    wait::{self, Change, Waiter},
};
use heapattach_process::{offspring::Offspring, proc::Process};

use ends::{GATHERING, Progress};

/// How long orders are looked for before we sleep: they come in long rows. Longer takes processor time from
/// the programs of a suite and ends none of them sooner.
const SPIN: Duration = Duration::from_micros(5);

/// A newborn whose parent never told of it is left alone after so long.
const NAMELESS: Duration = Duration::from_secs(1);

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one process, through its execs.
    Execs,
    /// Whatever it forks, too.
    Forks {
        /// Up to so many processes.
        most: usize,
        /// Whether they may be met at their ends.
        to_end: bool,
    },
}

impl Scope {
    fn options(self) -> Options {
        let base = Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACESYSGOOD;
        match self {
            // The end is looked at for what is told of children then.
            Self::Execs => base | Options::PTRACE_O_TRACEEXIT,
            Self::Forks { to_end, .. } => {
                let forks = base
                    | Options::PTRACE_O_TRACEFORK
                    | Options::PTRACE_O_TRACEVFORK
                    | Options::PTRACE_O_TRACECLONE;
                if to_end { forks | Options::PTRACE_O_TRACEEXIT } else { forks }
            }
        }
    }

    fn limit(self) -> usize {
        if let Self::Forks { most, .. } = self { most } else { 1 }
    }
}

/// What happened that a session of a process must know.
#[derive(Debug)]
pub enum Occurrence {
    /// A process became a program; it stands before the first instruction. If nothing was said of
    /// it before, since it was born in the memory of its parent: who that is.
    Execed(Lease, Option<i32>),
    /// A process was born by this one; it stands before its first instruction.
    Born(Lease, i32),
    /// A process ended, with this status of wait(2).
    Ended(i32, i32),
}

/// How a thread came to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// With its process, by a signal.
    Group,
    /// Before it takes this signal.
    Signal(i32),
    /// Otherwise.
    Other,
}

#[derive(Debug)]
struct Tracee {
    process: i32,
    halt: Option<Halt>,
    lease: Option<u64>,
    /// Given back, but not to run yet.
    is_kept: bool,
    /// It has told that it ends.
    is_at_end: bool,
    is_unfiltered: bool,
}

/// How much is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It was not told yet how it was born.
    Nameless(Instant),
    /// It runs in the memory of its parent, until it execs.
    Borrowing,
    /// It is one of those that are followed.
    Followed,
    /// It is let go as soon as its threads stop.
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Birth {
    parent: i32,
    shares_memory: bool,
}

#[derive(Debug)]
struct Rented {
    pid: i32,
    mailbox: Arc<Mailbox>,
    keeps: bool,
    /// Whether it is to be met at its end, and how far it is on its way there.
    end: Option<Progress>,
}

/// The tracing thread's knowledge.
#[derive(Debug)]
pub struct Family {
    scope: Scope,
    options: Options,
    waiter: Waiter,
    bell: Arc<EventFd>,
    orders: Receiver<Order>,
    order_sender: Sender<Order>,
    tracees: HashMap<i32, Tracee>,
    processes: HashMap<i32, Stage>,
    births: HashMap<i32, Birth>,
    rented: HashMap<u64, Rented>,
    leases: u64,
    followed: usize,
    not_looked_at: u64,
    offspring: Option<Offspring>,
    is_closing: bool,
    may_suspend: bool,
    occurrences: Vec<Occurrence>,
}

impl Family {
    /// Without members yet. Only the thread that calls this can do anything with it.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new(scope: Scope) -> Result<Self, Errno> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let (order_sender, orders) = channel();
        Ok(Self {
            scope,
            options: scope.options(),
            waiter: Waiter::new()?,
            bell: Arc::new(EventFd::from_flags(flags)?),
            orders,
            order_sender,
            tracees: HashMap::new(),
            processes: HashMap::new(),
            births: HashMap::new(),
            rented: HashMap::new(),
            leases: 0,
            followed: 0,
            not_looked_at: 0,
            offspring: None,
            is_closing: false,
            may_suspend: may_suspend_seccomp(),
            occurrences: Vec::new(),
        })
    }

    /// Traces a child that has not execed yet; it must be waiting for a sign from us.
    ///
    /// # Errors
    /// What ptrace says.
    pub fn seize(&mut self, pid: i32) -> Result<(), Errno> {
        insist(|| Tracer::Own.seize(pid, self.options))?;
        self.admit(pid, Stage::Followed);
        self.insert(pid, pid);
        Ok(())
    }

    /// Traces a process that runs, all of its threads.
    ///
    /// # Errors
    /// What ptrace says; then it is not traced. `EINTR` says that it is becoming another program.
    pub fn join(&mut self, process: &Process) -> Result<Lease, Errno> {
        let pid = process.pid();
        loop {
            let threads = process.threads()?;
            let fresh: Vec<i32> =
                threads.into_iter().filter(|tid| !self.tracees.contains_key(tid)).collect();
            if fresh.is_empty() {
                break;
            }
            for tid in fresh {
                match insist(|| Tracer::Own.seize(tid, self.options)) {
                    Ok(()) => self.insert(tid, pid),
                    Err(Errno::ESRCH) => {}
                    // Born traced, by a thread that was ours already.
                    Err(Errno::EPERM) if is_ours(tid) => self.insert(tid, pid),
                    Err(Errno::EPERM) if process.thread_state(tid).is_none_or(is_dead) => {}
                    Err(errno) => {
                        self.admit(pid, Stage::Followed);
                        self.let_leave(pid);
                        return Err(errno);
                    }
                }
            }
        }
        self.admit(pid, Stage::Followed);
        let lease = self.rent(pid);
        if let Some(rented) = self.rented.get_mut(&self.leases) {
            rented.keeps = false;
        }
        Ok(lease)
    }

    /// Rung to wake [`Family::turn`].
    pub fn bell(&self) -> Arc<EventFd> {
        Arc::clone(&self.bell)
    }

    /// Processes that were let run because there were too many.
    pub fn not_looked_at(&self) -> u64 {
        self.not_looked_at
    }

    /// Children of the one process that ended, where they are not followed.
    pub fn offspring(&self) -> Option<Offspring> {
        self.offspring
    }

    /// Processes that are traced.
    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// Whether [`Family::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Only processes that have a session are followed from here on, until it ends.
    pub fn close(&mut self) {
        self.is_closing = true;
        let has_lease = |pid| self.rented.values().any(|rented| rented.pid == pid);
        let others: Vec<i32> =
            self.processes.keys().copied().filter(|&pid| !has_lease(pid)).collect();
        others.into_iter().for_each(|pid| self.let_leave(pid));
    }

    /// Serves for a while: until something of interest happens, `other` is readable, the bell is
    /// rung by another thread, or `patience` is over.
    pub fn turn(&mut self, other: BorrowedFd<'_>, patience: Duration) -> Vec<Occurrence> {
        let deadline = Instant::now() + patience;
        let mut idle = Instant::now();
        loop {
            if self.serve() {
                idle = Instant::now();
            }
            self.forget_nameless();
            let is_ending = self.weigh_ends();
            let now = Instant::now();
            if !self.occurrences.is_empty() || now >= deadline {
                return std::mem::take(&mut self.occurrences);
            }
            if self.is_borrowed() && idle.elapsed() < SPIN {
                std::hint::spin_loop();
                continue;
            }
            let mut fds = [self.waiter.changes().as_fd(), self.bell.as_fd(), other]
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            let left = if is_ending { GATHERING } else { deadline - now };
            let left = left.as_millis() + 1;
            let _ = poll(&mut fds, PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX)));
            let rang = fds.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            if rang[0] {
                // Before the look at what has changed: what comes after it is announced again.
                self.waiter.clear();
            }
            if rang[1] {
                let _ = self.bell.read();
            }
            // Their order may have come between the last look and the bell.
            let served = self.serve();
            if rang[2] || (rang[1] && !served) {
                return std::mem::take(&mut self.occurrences);
            }
            idle = Instant::now();
        }
    }

    /// Whether a session has a thread just now.
    fn is_borrowed(&self) -> bool {
        self.tracees.values().any(|tracee| tracee.lease.is_some())
    }

    /// Does what there is to do; answers whether there was something.
    fn serve(&mut self) -> bool {
        let mut served = false;
        loop {
            if let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            } else if let Some((tid, change)) = wait::next() {
                match change {
                    Change::Ended(status) => self.ended(tid, status),
                    Change::Stopped(status) => self.stopped(tid, status),
                }
            } else {
                return served;
            }
            served = true;
        }
    }

    fn admit(&mut self, pid: i32, stage: Stage) {
        self.followed += usize::from(stage == Stage::Followed);
        self.processes.insert(pid, stage);
    }

    fn insert(&mut self, tid: i32, process: i32) {
        let tracee = Tracee {
            process,
            halt: None,
            lease: None,
            is_kept: false,
            is_at_end: false,
            is_unfiltered: false,
        };
        self.tracees.entry(tid).or_insert(tracee);
    }

    /// A lease on `pid`, whose threads that are stopped are lent already.
    fn rent(&mut self, pid: i32) -> Lease {
        self.leases += 1;
        let number = self.leases;
        let mailbox = Arc::new(Mailbox::new());
        for (&tid, tracee) in &mut self.tracees {
            if tracee.process == pid && tracee.halt.is_some() {
                tracee.lease = Some(number);
                tracee.is_kept = true;
                mailbox.lend(tid);
            }
        }
        let rented = Rented { pid, mailbox: Arc::clone(&mailbox), keeps: true, end: None };
        self.rented.insert(number, rented);
        Lease::new(number, pid, self.order_sender.clone(), self.bell(), mailbox)
    }
}

/// Whether a thread that cannot be seized is traced by this process.
fn is_ours(tid: i32) -> bool {
    let status = Process::open(tid).and_then(|process| process.status());
    status.is_ok_and(|status| status.tracer == std::process::id().cast_signed())
}

fn is_dead(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}
