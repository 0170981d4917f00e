//! Threads of a process that this thread may stop although another one traces them: where whole
//! families of processes are followed, one thread ([`crate::trace::family`]) traces all of them, since the
//! kernel lets a child be born traced only by the tracer of its parent, while every process has a
//! session in a thread of its own.
//!
//! A session that opens a target with the tracer of a lease ([`Lease::tracer`]) makes its ptrace requests as
//! ever; here they are handed to the tracing thread, which makes them in its place, and what traced
//! threads do is handed back. To seize is then to borrow, and to detach is to give back.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, SyncSender, TryRecvError, sync_channel},
    },
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::eventfd::{EfdFlags, EventFd},
};

use crate::trace::{
    seen::Seen,
    tracer::Tracer,
    walk::{Step, Walk},
};

/// How long an answer is looked for before we sleep: it mostly comes at once.
const SPIN: Duration = Duration::from_micros(5);

/// What a request does to the thread it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is ours from now on.
    Lends,
    /// It is to stop.
    Interrupts,
    /// It runs on.
    Runs,
    /// It is ours no longer, and takes this signal, if not 0.
    GivesBack(i32),
}

/// What is wanted of the tracing thread.
pub(crate) struct Order {
    pub(crate) lease: u64,
    pub(crate) task: Task,
}

/// A task of the tracing thread.
pub(crate) enum Task {
    /// A request with consequences.
    Tell {
        tid: i32,
        effect: Effect,
        request: Box<dyn FnOnce() -> Result<(), Errno> + Send>,
        answer: SyncSender<Result<(), Errno>>,
    },
    /// A request that only asks, or writes registers; it is told why if it may not be made.
    Ask { tid: i32, request: Box<dyn FnOnce(Result<(), Errno>) + Send> },
    /// Several requests, one after the other.
    Walk { tid: i32, steps: Vec<Step>, answer: SyncSender<Result<Walk, Errno>> },
    /// The process may run on whenever it is given back.
    LetGo,
    /// The process is to be stopped at its end.
    MeetEnd,
    /// It may end.
    LetEnd,
    /// The process is not to be traced any more.
    Leave,
    /// The lease is over.
    Return,
}

/// What became of a process whose end is to be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is at its end, where these threads stand.
    Ends(Vec<i32>),
    /// It became another program, which another session has a lease on.
    Execs,
    /// It is gone.
    Gone,
}

/// The mail of one lease: what its threads did, and what became of all of them together.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    lent: Mutex<HashMap<i32, VecDeque<Seen>>>,
    change: Condvar,
    fate: Mutex<Option<Fate>>,
    /// Rung when the fate is known; without one it has to be looked for.
    bell: Option<EventFd>,
    /// Whether the process has made another since.
    has_forked: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Self { bell: EventFd::from_flags(flags).ok(), ..Self::default() }
    }

    /// The first fate that is told is the one that counts.
    pub(crate) fn tell(&self, fate: Fate) {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fate);
        if let Some(bell) = &self.bell {
            let _ = bell.write(1);
        }
    }

    /// Before the process goes on.
    pub(crate) fn note_birth(&self) {
        self.has_forked.store(true, Relaxed);
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<i32, VecDeque<Seen>>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lend(&self, tid: i32) {
        self.open().entry(tid).or_default();
    }

    pub(crate) fn take_back(&self, tid: i32) {
        self.open().remove(&tid);
    }

    /// Every thread of it has ended, as far as the lease goes.
    pub(crate) fn close(&self) {
        self.open().clear();
        self.change.notify_all();
    }

    pub(crate) fn post(&self, tid: i32, seen: Seen) {
        if let Some(queue) = self.open().get_mut(&tid) {
            queue.push_back(seen);
        }
        self.change.notify_all();
    }

    fn take(lent: &mut HashMap<i32, VecDeque<Seen>>, tid: i32) -> Seen {
        let Some(queue) = lent.get_mut(&tid) else { return Seen::Ended };
        match queue.pop_front() {
            Some(Seen::Ended) => {
                lent.remove(&tid);
                Seen::Ended
            }
            seen => seen.unwrap_or(Seen::Nothing),
        }
    }
}

/// A lease on the threads of one process.
#[derive(Debug)]
pub struct Lease(Arc<Holding>);

/// What the requests for threads of a lease are made through.
#[derive(Debug)]
pub struct Holding {
    number: u64,
    pid: i32,
    orders: Sender<Order>,
    bell: Arc<EventFd>,
    mailbox: Arc<Mailbox>,
}

impl Lease {
    pub(crate) fn new(
        number: u64,
        pid: i32,
        orders: Sender<Order>,
        bell: Arc<EventFd>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self(Arc::new(Holding { number, pid, orders, bell, mailbox }))
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.0.pid
    }

    /// Through this the tracing thread makes the requests for the process. Until [`Lease::let_go`]
    /// the process does not run when its threads are given back.
    pub fn tracer(&self) -> Tracer {
        Tracer::Lent(Arc::clone(&self.0))
    }

    /// Lets the process run.
    pub fn let_go(&self) {
        self.0.send(Task::LetGo);
    }

    /// Has the process stop at its end, until [`Lease::let_end`].
    pub(crate) fn meet_end(&self) {
        self.0.send(Task::MeetEnd);
    }

    /// Lets it end.
    pub(crate) fn let_end(&self) {
        self.0.send(Task::LetEnd);
    }

    /// What became of it, once that is known.
    pub(crate) fn fate(&self) -> Option<Fate> {
        let mailbox = &self.0.mailbox;
        let _ = mailbox.bell.as_ref().map(EventFd::read);
        mailbox.fate.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Readable when the fate is known.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.0.mailbox.bell.as_ref().map(AsFd::as_fd)
    }

    /// Has the process not be traced any more.
    pub fn leave(&self) {
        self.0.send(Task::Leave);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.send(Task::Return);
    }
}

impl Holding {
    fn send(&self, task: Task) {
        // Without a tracing thread there is nothing to be traced either.
        let _ = self.orders.send(Order { lease: self.number, task });
        let _ = self.bell.write(1);
    }

    /// Whether the process may have made another since.
    pub(super) fn has_forked(&self) -> bool {
        self.mailbox.has_forked.load(Relaxed)
    }

    /// Whether the process is another program by now, whatever became of that one.
    pub(super) fn has_execed(&self) -> bool {
        let fate = self.mailbox.fate.lock().unwrap_or_else(PoisonError::into_inner);
        *fate == Some(Fate::Execs)
    }

    /// What a thread did, without waiting.
    pub(super) fn look(&self, tid: i32) -> Seen {
        Mailbox::take(&mut self.mailbox.open(), tid)
    }

    /// The same, waiting no longer than `deadline`.
    pub(super) fn wait(&self, tid: i32, deadline: Instant) -> Seen {
        let soon = Instant::now() + SPIN;
        while Instant::now() < soon {
            let seen = self.look(tid);
            if seen != Seen::Nothing {
                return seen;
            }
            std::hint::spin_loop();
        }
        let mut lent = self.mailbox.open();
        loop {
            let seen = Mailbox::take(&mut lent, tid);
            let left = deadline.saturating_duration_since(Instant::now());
            if seen != Seen::Nothing || left.is_zero() {
                return seen;
            }
            let waited = self.mailbox.change.wait_timeout(lent, left);
            lent = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has a request made that has consequences.
    pub(super) fn tell(
        &self,
        tid: i32,
        effect: Effect,
        request: impl FnOnce() -> Result<(), Errno> + Send + 'static,
    ) -> Result<(), Errno> {
        let (answer, told) = sync_channel(1);
        self.send(Task::Tell { tid, effect, request: Box::new(request), answer });
        receive(&told)
    }

    /// Has several requests made, one after the other.
    pub(super) fn walk(&self, tid: i32, steps: Vec<Step>) -> Result<Walk, Errno> {
        let (answer, told) = sync_channel(1);
        self.send(Task::Walk { tid, steps, answer });
        receive(&told)
    }

    /// Has a request made that lets nothing run.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        tid: i32,
        request: impl FnOnce() -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        let (answer, told) = sync_channel(1);
        let request = move |permit: Result<(), Errno>| {
            // The session that asked may have given up.
            let _ = answer.send(permit.and_then(|()| request()));
        };
        self.send(Task::Ask { tid, request: Box::new(request) });
        receive(&told)
    }
}

fn receive<T>(told: &Receiver<Result<T, Errno>>) -> Result<T, Errno> {
    let soon = Instant::now() + SPIN;
    loop {
        match told.try_recv() {
            Ok(result) => return result,
            Err(TryRecvError::Disconnected) => return Err(Errno::ESRCH),
            Err(TryRecvError::Empty) if Instant::now() < soon => std::hint::spin_loop(),
            Err(TryRecvError::Empty) => return told.recv().unwrap_or(Err(Errno::ESRCH)),
        }
    }
}
