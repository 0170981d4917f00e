//! The process we work on, with everything that is opened before it is first stopped.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    time::{Duration, Instant},
};

use nix::{errno::Errno, sys::ptrace::Options};

use crate::trace::{insist::insist, permit::Permit, seen::Seen, tracer::Tracer, wait::Waiter};
use heapattach_process::{memory::Memory, proc::Process};

/// `CAP_SYS_ADMIN`, which switching off a seccomp filter needs.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// A target that we may trace.
#[derive(Debug)]
pub struct Target {
    /// What `/proc` knows of it.
    pub process: Process,
    /// Its memory.
    pub memory: Memory,
    /// Waits for its threads.
    pub waiter: Waiter,
    /// How its threads are seized.
    pub options: Options,
    /// Whether it may be stopped at all.
    pub permit: Permit,
    /// Threads that were told to stop while the kernel held them (a vfork): they stop when they
    /// come back, and are let go then.
    pub late: RefCell<HashSet<i32>>,
    /// Threads that came back and are kept, stopped, for the next stop.
    pub held: RefCell<Vec<i32>>,
    /// Threads that stay traced between stops, of a target that is kept so ([`crate::trace::exit_watch`]).
    pub(crate) kept: RefCell<HashSet<i32>>,
    /// Those of them that stand at their end, and go no further before they are let.
    pub(crate) ending: RefCell<Vec<i32>>,
    /// Whether it became another program in a stop of ours: it stands before its first instruction,
    /// for whoever keeps it.
    pub(crate) has_execed: Cell<bool>,
    /// Whether its threads stand at their ends because somebody else keeps it so
    /// ([`crate::trace::member_exit_watch`]).
    pub(crate) is_met: Cell<bool>,
}

impl Target {
    /// Opens what the engine needs; the target notices nothing. Its threads are traced by `tracer`.
    ///
    /// # Errors
    /// What opening its memory says: `EACCES` or `EPERM` where ptrace would be refused.
    pub fn open(process: Process, tracer: Tracer) -> Result<Self, Errno> {
        let memory = Memory::open(&process)?;
        let filtered = process.status().is_ok_and(|s| s.seccomp != 0);
        let mut options = Options::PTRACE_O_TRACESYSGOOD;
        if filtered && may_suspend_seccomp() {
            options |= suspend_seccomp();
        }
        Ok(Self {
            process,
            memory,
            waiter: Waiter::of(tracer)?,
            options,
            permit: Permit::default(),
            late: RefCell::default(),
            held: RefCell::default(),
            kept: RefCell::default(),
            ending: RefCell::default(),
            has_execed: Cell::default(),
            is_met: Cell::default(),
        })
    }

    /// Who traces its threads.
    pub fn tracer(&self) -> &Tracer {
        self.waiter.tracer()
    }

    /// Whether its system calls are filtered: then ours must be none.
    pub(crate) fn is_confined(&self) -> bool {
        self.process.status().is_ok_and(|status| status.seccomp != 0)
    }

    /// Whether its threads stay traced between stops.
    pub(crate) fn is_kept(&self) -> bool {
        !self.kept.borrow().is_empty()
    }

    /// Whether a thread that comes to its end stands there until it is let go.
    pub(crate) fn stands_at_end(&self) -> bool {
        self.is_kept() || self.is_met.get()
    }

    /// Whether this thread stays traced between stops.
    pub(crate) fn keeps(&self, tid: i32) -> bool {
        self.kept.borrow().contains(&tid)
    }

    /// What its threads are told by, besides [`Target::options`], while it is kept.
    pub(crate) fn kept_options(&self) -> Options {
        let kept = Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXIT
            | Options::PTRACE_O_TRACEEXEC;
        if self.is_kept() { kept } else { Options::empty() }
    }

    /// Whether this thread of ours traces that thread of the target already.
    pub(crate) fn traces(&self, tid: i32) -> bool {
        let own = nix::unistd::gettid().as_raw();
        self.process.thread_status(tid).is_ok_and(|status| status.tracer == own)
    }

    /// Lets a stopped thread run, traced if it is kept so.
    pub(crate) fn let_go(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        if !self.kept.borrow().contains(&tid) {
            return insist(|| self.tracer().detach(tid, signal));
        }
        // Its end is for whoever keeps it.
        if self.ending.borrow().contains(&tid) {
            return Ok(());
        }
        insist(|| self.tracer().resume(tid, signal))
    }

    /// Waits for threads that the kernel holds to come back, and keeps them stopped, so that the
    /// next stop finds none of them in a vfork again. If some do not come, those that did run on.
    pub fn hold_late(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while !self.late.borrow().is_empty() && Instant::now() < deadline {
            self.late.borrow_mut().retain(|&tid| match self.tracer().look(tid) {
                Seen::Nothing => true,
                Seen::Ended => {
                    self.reap_thread(tid);
                    false
                }
                Seen::Signal(signal) => self.tracer().interrupt_next(tid, signal).is_ok(),
                Seen::Interrupted => {
                    self.held.borrow_mut().push(tid);
                    false
                }
                // As in a stop.
                Seen::Event(libc::PTRACE_EVENT_EXIT) if self.stands_at_end() => {
                    self.ending.borrow_mut().push(tid);
                    self.held.borrow_mut().push(tid);
                    false
                }
                Seen::Event(libc::PTRACE_EVENT_EXEC) if self.is_kept() => {
                    self.has_execed.set(true);
                    false
                }
                Seen::Call | Seen::Event(_) => self.tracer().interrupt_next(tid, 0).is_ok(),
            });
            self.waiter.clear();
            if !self.late.borrow().is_empty() {
                self.waiter.sleep(Duration::from_millis(1));
            }
        }
        if !self.late.borrow().is_empty() {
            for tid in self.held.take() {
                let _ = self.let_go(tid, 0);
            }
        }
    }

    /// Lets go the threads that came back from the kernel meanwhile.
    pub fn release_late(&self) {
        for tid in self.held.take() {
            let _ = self.let_go(tid, 0);
        }
        self.late.borrow_mut().retain(|&tid| match self.tracer().look(tid) {
            Seen::Nothing => true,
            Seen::Ended => {
                self.reap_thread(tid);
                false
            }
            Seen::Signal(signal) => self.let_go(tid, signal).is_err(),
            _ => self.let_go(tid, 0).is_err(),
        });
    }

    /// Consumes the end of a thread, but never that of the process: its status is for the session.
    pub(crate) fn reap_thread(&self, tid: i32) {
        if tid != self.process.pid() {
            self.tracer().reap(tid);
        }
    }
}

/// Whether this process could switch off the seccomp filters of a tracee.
pub fn may_suspend_seccomp() -> bool {
    let own = Process::open(std::process::id().cast_signed()).and_then(|p| p.status());
    own.is_ok_and(|s| s.capabilities & CAP_SYS_ADMIN != 0 && s.seccomp == 0) && is_of_the_machine()
}

/// Whether our capabilities are those of the machine: the kernel asks for the right to suspend
/// filters there, and the root of a container with users of its own has all of them, but only
/// within.
fn is_of_the_machine() -> bool {
    /// The number of the first user namespace, the same in every kernel.
    const FIRST: &str = "user:[4026531837]";
    std::fs::read_link("/proc/self/ns/user").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// `PTRACE_O_SUSPEND_SECCOMP`, which nix does not name.
pub(crate) fn suspend_seccomp() -> Options {
    const PTRACE_O_SUSPEND_SECCOMP: i32 = 1 << 21;
    Options::from_bits_retain(PTRACE_O_SUSPEND_SECCOMP)
}
