//! A program and whatever it forks and execs, traced by one thread for as long as they are
//! followed: it lets everything run on at once, but for processes that have just been born or have
//! just execed. Each of those is handed out, stopped, with a lease ([`crate::lease`]).
//!
//! A traced program pays for its signals, its threads and its children, each of which stops it for
//! a moment; for nothing else. If this process dies, the kernel lets everything run on.

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

use crate::{
    lease::{Effect, Lease, Mailbox, Order, Task},
    offspring::Offspring,
    proc::Process,
    ptrace,
    stopped::insist,
    target::{may_suspend_seccomp, suspend_seccomp},
    urgency::Urgency,
    wait::{self, Change, Seen, Waiter},
};

/// How long orders are looked for before we sleep: they come in long rows.
const SPIN: Duration = Duration::from_micros(30);

/// A newborn whose parent never told of it is left alone after so long.
const NAMELESS: Duration = Duration::from_secs(1);

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one process, through its execs.
    Execs,
    /// Whatever it forks, too, up to so many processes.
    Forks(usize),
}

impl Scope {
    fn options(self) -> Options {
        let base = Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACESYSGOOD;
        match self {
            // The end is looked at for what is told of children then.
            Self::Execs => base | Options::PTRACE_O_TRACEEXIT,
            Self::Forks(_) => {
                base | Options::PTRACE_O_TRACEFORK
                    | Options::PTRACE_O_TRACEVFORK
                    | Options::PTRACE_O_TRACECLONE
            }
        }
    }

    fn limit(self) -> usize {
        if let Self::Forks(most) = self { most } else { 1 }
    }
}

/// What happened that is of interest to whoever looks into processes.
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

/// How a thread came to stand still.
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
    is_unfiltered: bool,
}

/// How much is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody has told yet how it was born.
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
}

/// The tracing thread's knowledge.
#[derive(Debug)]
pub struct Family {
    scope: Scope,
    options: Options,
    waiter: Waiter,
    bell: Arc<EventFd>,
    orders: Receiver<Order>,
    desk: Sender<Order>,
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
    _urgency: Urgency,
}

impl Family {
    /// Without members yet. Only the thread that calls this can do anything with it.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new(scope: Scope) -> Result<Self, Errno> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let (desk, orders) = channel();
        Ok(Self {
            scope,
            options: scope.options(),
            waiter: Waiter::new()?,
            bell: Arc::new(EventFd::from_flags(flags)?),
            orders,
            desk,
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
            _urgency: Urgency::raise(),
        })
    }

    /// Traces a child that has not execed yet; it must be waiting for a sign from us.
    ///
    /// # Errors
    /// What ptrace says.
    pub fn seize(&mut self, pid: i32) -> Result<(), Errno> {
        ptrace::seize(pid, self.options)?;
        self.admit(pid, Stage::Followed);
        self.insert(pid, pid);
        Ok(())
    }

    /// Traces a process that runs, all of its threads.
    ///
    /// # Errors
    /// What ptrace says; then it is not traced.
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
                match ptrace::seize(tid, self.options) {
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

    /// Nobody is followed any more but those who have a session until it ends.
    pub fn close(&mut self) {
        self.is_closing = true;
        let has_lease = |pid| self.rented.values().any(|rented| rented.pid == pid);
        let others: Vec<i32> =
            self.processes.keys().copied().filter(|&pid| !has_lease(pid)).collect();
        others.into_iter().for_each(|pid| self.let_leave(pid));
    }

    /// Serves for a while: until something of interest happens, `other` is readable, the bell is
    /// rung by somebody else, or `patience` is over.
    pub fn turn(&mut self, other: BorrowedFd<'_>, patience: Duration) -> Vec<Occurrence> {
        let deadline = Instant::now() + patience;
        let mut idle = Instant::now();
        loop {
            if self.serve() {
                idle = Instant::now();
            }
            self.forget_nameless();
            let now = Instant::now();
            if !self.occurrences.is_empty() || now >= deadline {
                return std::mem::take(&mut self.occurrences);
            }
            if !self.rented.is_empty() && idle.elapsed() < SPIN {
                std::hint::spin_loop();
                continue;
            }
            let mut fds = [self.waiter.changes().as_fd(), self.bell.as_fd(), other]
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            let left = (deadline - now).as_millis() + 1;
            let _ = poll(&mut fds, PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX)));
            let rang = fds.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
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

    /// Does what there is to do; answers whether there was something.
    fn serve(&mut self) -> bool {
        self.waiter.clear();
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
        let tracee =
            Tracee { process, halt: None, lease: None, is_kept: false, is_unfiltered: false };
        self.tracees.entry(tid).or_insert(tracee);
    }

    /// A lease on `pid`, whose threads that stand still are lent already.
    fn rent(&mut self, pid: i32) -> Lease {
        self.leases += 1;
        let number = self.leases;
        let mailbox = Arc::new(Mailbox::default());
        for (&tid, tracee) in &mut self.tracees {
            if tracee.process == pid && tracee.halt.is_some() {
                tracee.lease = Some(number);
                tracee.is_kept = true;
                mailbox.lend(tid);
            }
        }
        let rented = Rented { pid, mailbox: Arc::clone(&mailbox), keeps: true };
        self.rented.insert(number, rented);
        Lease::new(number, pid, self.desk.clone(), self.bell(), mailbox)
    }

    /// A thread that is seen for the first time.
    fn meet(&mut self, tid: i32) {
        let status = Process::open(tid).and_then(|process| process.status());
        let process = status.map_or(tid, |status| status.tgid);
        self.insert(tid, process);
        if process != tid {
            self.births.remove(&tid);
        } else if !self.processes.contains_key(&tid) {
            self.admit(tid, Stage::Nameless(Instant::now()));
        }
    }

    fn stopped(&mut self, tid: i32, status: i32) {
        if !self.tracees.contains_key(&tid) {
            self.meet(tid);
        }
        let seen = wait::meaning(status);
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        tracee.halt = Some(match seen {
            Seen::Signal(signal) => Halt::Signal(signal),
            Seen::Interrupted if status & 0xff != libc::SIGTRAP => Halt::Group,
            _ => Halt::Other,
        });
        match seen {
            Seen::Event(libc::PTRACE_EVENT_EXEC) => return self.execed(tid),
            Seen::Event(
                event @ (libc::PTRACE_EVENT_FORK
                | libc::PTRACE_EVENT_VFORK
                | libc::PTRACE_EVENT_CLONE),
            ) => self.told_of_birth(tid, event),
            Seen::Event(libc::PTRACE_EVENT_EXIT) => {
                let process = Process::open(tid).ok();
                self.offspring = process.as_ref().and_then(Offspring::of);
            }
            _ => {}
        }
        self.route(tid, seen);
    }

    /// What is done with a thread that stopped.
    fn route(&mut self, tid: i32, seen: Seen) {
        let Some(tracee) = self.tracees.get(&tid) else { return };
        match self.processes.get(&tracee.process) {
            Some(Stage::Leaving) => self.detach(tid),
            Some(Stage::Nameless(_)) if tracee.process == tid => self.name(tid),
            _ => match tracee.lease {
                Some(lease) => self.post(lease, tid, seen),
                None => self.run_on(tid),
            },
        }
    }

    fn post(&mut self, lease: u64, tid: i32, seen: Seen) {
        if seen == Seen::Interrupted {
            self.lift_filter(tid);
        }
        if let Some(rented) = self.rented.get(&lease) {
            rented.mailbox.post(tid, seen);
        }
    }

    /// Whoever borrows a thread may have it make system calls that a filter forbids.
    fn lift_filter(&mut self, tid: i32) {
        if !self.may_suspend {
            return;
        }
        let status = Process::open(tid).and_then(|process| process.status());
        if status.is_ok_and(|status| status.seccomp != 0) {
            let lifted = ptrace::set_options(tid, self.options | suspend_seccomp());
            if let Some(tracee) = self.tracees.get_mut(&tid) {
                tracee.is_unfiltered = lifted.is_ok();
            }
        }
    }

    /// A process in the middle of a fork: a child will turn up, or has.
    fn told_of_birth(&mut self, tid: i32, event: i32) {
        let parent = self.tracees.get(&tid).map_or(tid, |tracee| tracee.process);
        let Ok(child) = ptrace::event_message(tid) else { return };
        // A thread is no process.
        if self.tracees.get(&child).is_some_and(|tracee| tracee.process != child) {
            return;
        }
        let birth = Birth { parent, shares_memory: event == libc::PTRACE_EVENT_VFORK };
        self.births.insert(child, birth);
        if matches!(self.processes.get(&child), Some(Stage::Nameless(_))) {
            self.name(child);
        }
    }

    /// Decides about a newborn, once both it and its parent were heard.
    fn name(&mut self, pid: i32) {
        if self.tracees.get(&pid).is_none_or(|tracee| tracee.halt.is_none()) {
            return;
        }
        let Some(birth) = self.births.remove(&pid) else { return };
        if birth.shares_memory && !self.is_closing {
            self.births.insert(pid, birth);
            self.processes.insert(pid, Stage::Borrowing);
            return self.run_on(pid);
        }
        if self.is_welcome() {
            self.admit(pid, Stage::Followed);
            let lease = self.rent(pid);
            self.occurrences.push(Occurrence::Born(lease, birth.parent));
        } else {
            self.let_leave(pid);
        }
    }

    /// Whether there is room for one more; if not, somebody is not looked at.
    fn is_welcome(&mut self) -> bool {
        let is_room = self.followed < self.scope.limit();
        self.not_looked_at += u64::from(!is_room && !self.is_closing);
        is_room && !self.is_closing
    }

    fn forget_nameless(&mut self) {
        let is_old =
            |stage: &Stage| matches!(stage, Stage::Nameless(since) if since.elapsed() > NAMELESS);
        let old: Vec<i32> =
            self.processes.iter().filter(|(_, stage)| is_old(stage)).map(|(&pid, _)| pid).collect();
        for pid in old {
            self.not_looked_at += 1;
            self.let_leave(pid);
        }
    }

    /// Only the thread that called it is left, and it is the first one now.
    fn execed(&mut self, pid: i32) {
        self.tracees.retain(|&tid, tracee| tid == pid || tracee.process != pid);
        let revoked: Vec<u64> =
            self.rented.iter().filter(|(_, r)| r.pid == pid).map(|(&number, _)| number).collect();
        for number in revoked {
            if let Some(rented) = self.rented.remove(&number) {
                rented.mailbox.close();
            }
        }
        let Some(tracee) = self.tracees.get_mut(&pid) else { return };
        (tracee.lease, tracee.is_kept, tracee.process) = (None, false, pid);
        let birth = self.births.remove(&pid);
        let is_known = self.processes.get(&pid) == Some(&Stage::Followed);
        if self.processes.get(&pid) == Some(&Stage::Leaving) || self.is_closing {
            return self.let_leave(pid);
        }
        if !is_known {
            if !self.is_welcome() {
                return self.let_leave(pid);
            }
            self.admit(pid, Stage::Followed);
        }
        let lease = self.rent(pid);
        let parent = birth.map(|birth| birth.parent);
        self.occurrences.push(Occurrence::Execed(lease, parent));
    }

    fn ended(&mut self, tid: i32, status: i32) {
        self.births.remove(&tid);
        let tracee = self.tracees.remove(&tid);
        if let Some(rented) = tracee.as_ref().and_then(|t| self.rented.get(&t.lease?)) {
            rented.mailbox.post(tid, Seen::Ended);
        }
        if tracee.is_some_and(|tracee| tracee.process != tid) {
            return;
        }
        // A process; perhaps a child of ours that was let go before.
        self.processes.remove(&tid);
        self.tracees.retain(|_, tracee| tracee.process != tid);
        self.occurrences.push(Occurrence::Ended(tid, status));
    }

    /// Lets a thread run on as if nobody had stopped it.
    fn run_on(&mut self, tid: i32) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        if std::mem::take(&mut tracee.is_unfiltered) {
            let _ = ptrace::set_options(tid, self.options);
        }
        tracee.is_kept = false;
        // Whoever is gone meanwhile needs nothing.
        let _ = match tracee.halt.take() {
            None => Ok(()),
            Some(Halt::Group) => insist(|| ptrace::listen(tid)),
            Some(Halt::Signal(signal)) => insist(|| ptrace::resume(tid, signal)),
            Some(Halt::Other) => insist(|| ptrace::resume(tid, 0)),
        };
    }

    /// The same, and nobody traces it any more.
    fn detach(&mut self, tid: i32) {
        let Some(tracee) = self.tracees.remove(&tid) else { return };
        let signal = if let Some(Halt::Signal(signal)) = tracee.halt { signal } else { 0 };
        let _ = insist(|| ptrace::detach(tid, signal));
        if !self.tracees.values().any(|other| other.process == tracee.process) {
            self.processes.remove(&tracee.process);
        }
    }

    fn let_leave(&mut self, pid: i32) {
        self.processes.insert(pid, Stage::Leaving);
        let own = self.tracees.iter().filter(|(_, tracee)| tracee.process == pid);
        let own: Vec<(i32, bool)> = own.map(|(&tid, t)| (tid, t.halt.is_some())).collect();
        for (tid, is_stopped) in own {
            if is_stopped {
                self.detach(tid);
            } else {
                let _ = ptrace::interrupt(tid);
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let number = order.lease;
        match order.task {
            Task::Tell { tid, effect, request, answer } => {
                let _ = answer.send(self.tell(number, tid, effect, request));
            }
            Task::Ask { tid, request } => request(self.permit(number, tid)),
            Task::LetGo => {
                if let Some(rented) = self.rented.get_mut(&number) {
                    rented.keeps = false;
                }
                self.free(number, |tracee| tracee.is_kept);
            }
            Task::Leave => {
                let Some(pid) = self.rented.get(&number).map(|rented| rented.pid) else { return };
                self.let_leave(pid);
            }
            Task::Return => {
                self.rented.remove(&number);
                self.free(number, |_| true);
            }
        }
    }

    /// Takes threads back, and lets those that stand still run.
    fn free(&mut self, number: u64, which: impl Fn(&Tracee) -> bool) {
        let own = self.tracees.iter().filter(|(_, t)| t.lease == Some(number) && which(t));
        let own: Vec<i32> = own.map(|(&tid, _)| tid).collect();
        for tid in own {
            self.take_back(number, tid);
            self.run_on(tid);
        }
    }

    fn take_back(&mut self, number: u64, tid: i32) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.lease = None;
        }
        if let Some(rented) = self.rented.get(&number) {
            rented.mailbox.take_back(tid);
        }
    }

    fn permit(&self, number: u64, tid: i32) -> Result<(), Errno> {
        let is_lent = self.tracees.get(&tid).is_some_and(|tracee| tracee.lease == Some(number));
        if is_lent { Ok(()) } else { Err(Errno::ESRCH) }
    }

    fn tell(
        &mut self,
        number: u64,
        tid: i32,
        effect: Effect,
        request: Box<dyn FnOnce() -> Result<(), Errno> + Send>,
    ) -> Result<(), Errno> {
        if effect == Effect::Lends {
            return self.lend(number, tid, request);
        }
        self.permit(number, tid)?;
        let Some(tracee) = self.tracees.get_mut(&tid) else { return Err(Errno::ESRCH) };
        match effect {
            Effect::Interrupts if tracee.is_kept => {
                self.post(number, tid, Seen::Interrupted);
                Ok(())
            }
            Effect::Runs => {
                request()?;
                (tracee.halt, tracee.is_kept) = (None, false);
                Ok(())
            }
            Effect::GivesBack(signal) => {
                let keeps = self.rented.get(&number).is_some_and(|rented| rented.keeps);
                if keeps && signal == 0 && tracee.halt.is_some() {
                    tracee.is_kept = true;
                    return Ok(());
                }
                if signal != 0 && tracee.halt.is_some() {
                    tracee.halt = Some(Halt::Signal(signal));
                }
                self.take_back(number, tid);
                self.run_on(tid);
                Ok(())
            }
            Effect::Interrupts | Effect::Lends => request(),
        }
    }

    fn lend(
        &mut self,
        number: u64,
        tid: i32,
        request: Box<dyn FnOnce() -> Result<(), Errno> + Send>,
    ) -> Result<(), Errno> {
        let rented = self.rented.get(&number).ok_or(Errno::ESRCH)?;
        let (pid, mailbox) = (rented.pid, Arc::clone(&rented.mailbox));
        if !self.tracees.contains_key(&tid) {
            match request() {
                Ok(()) => {}
                // Born traced; its first stop has not been told yet.
                Err(Errno::EPERM) if is_ours(tid) => {}
                Err(errno) => return Err(errno),
            }
            self.insert(tid, pid);
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return Err(Errno::ESRCH) };
        if tracee.process != pid || tracee.lease.is_some_and(|other| other != number) {
            return Err(Errno::ESRCH);
        }
        tracee.lease = Some(number);
        mailbox.lend(tid);
        Ok(())
    }
}

/// Whether a thread that nobody may seize is traced by this process.
fn is_ours(tid: i32) -> bool {
    let status = Process::open(tid).and_then(|process| process.status());
    status.is_ok_and(|status| status.tracer == std::process::id().cast_signed())
}

fn is_dead(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}
