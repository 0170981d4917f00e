//! The process we work on, with everything that is opened before it is first stopped.

use std::time::{Duration, Instant};

use nix::{errno::Errno, sys::ptrace::Options};

use crate::trace::{
    insist::insist, permit::Permit, seen::Seen, threads::Threads, tracer::Tracer, wait::Waiter,
};
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
    /// What is remembered of its threads between stops.
    pub(crate) threads: Threads,
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
            threads: Threads::default(),
        })
    }

    /// Whether threads of it are traced all the time, not only in stops.
    pub fn is_traced(&self) -> bool {
        self.threads.has_kept()
    }

    /// Who traces its threads.
    pub fn tracer(&self) -> &Tracer {
        self.waiter.tracer()
    }

    /// Whether its system calls are filtered: then ours must be none.
    pub(crate) fn is_confined(&self) -> bool {
        self.process.status().is_ok_and(|status| status.seccomp != 0)
    }

    /// What its threads are told by, besides [`Target::options`], while it is kept.
    pub(crate) fn kept_options(&self) -> Options {
        let kept = Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXIT
            | Options::PTRACE_O_TRACEEXEC;
        if self.threads.has_kept() { kept } else { Options::empty() }
    }

    /// Whether this thread of ours traces that thread of the target already.
    pub(crate) fn traces(&self, tid: i32) -> bool {
        let own = nix::unistd::gettid().as_raw();
        self.process.thread_status(tid).is_ok_and(|status| status.tracer == own)
    }

    /// Lets a stopped thread run, traced if it is kept so.
    pub(crate) fn let_go(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        if !self.threads.is_kept(tid) {
            return insist(|| self.tracer().detach(tid, signal));
        }
        self.let_go_kept(tid, signal)
    }

    /// The same of one that is kept. Its end is for the exit watch; and it stands there by now, unseen, if its
    /// process began to end, or another of its threads to exec, after it was seen to stand elsewhere.
    pub(super) fn let_go_kept(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        if self.threads.is_at_end(tid) {
            return Ok(());
        }
        if self.tracer().look(tid) == Seen::Event(libc::PTRACE_EVENT_EXIT) {
            self.threads.add_at_end(tid);
            return Ok(());
        }
        insist(|| self.tracer().resume(tid, signal))
    }

    /// Waits for threads that the kernel holds to come back, and keeps them stopped, so that the
    /// next stop finds none of them in a vfork again. If some do not come, those that did run on.
    pub fn hold_late(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.threads.has_late() && Instant::now() < deadline {
            self.threads.look_at_late(|tid| match self.look_at_late(tid) {
                Late::Waits => true,
                Late::Over => false,
                Late::Stands(Seen::Signal(signal)) => {
                    self.tracer().interrupt_next(tid, signal).is_ok()
                }
                Late::Stands(Seen::Interrupted) => {
                    self.threads.hold([tid]);
                    false
                }
                Late::Stands(_) => self.tracer().interrupt_next(tid, 0).is_ok(),
                Late::AtEnd => {
                    self.threads.hold([tid]);
                    false
                }
            });
            self.waiter.clear();
            if self.threads.has_late() {
                self.waiter.sleep(Duration::from_millis(1));
            }
        }
        if self.threads.has_late() {
            for tid in self.threads.take_held() {
                let _ = self.let_go(tid, 0);
            }
        }
    }

    /// Lets go the threads that came back from the kernel meanwhile.
    pub fn release_late(&self) {
        for tid in self.threads.take_held() {
            let _ = self.let_go(tid, 0);
        }
        self.threads.look_at_late(|tid| match self.look_at_late(tid) {
            Late::Waits => true,
            Late::Over => false,
            Late::Stands(Seen::Signal(signal)) => self.let_go(tid, signal).is_err(),
            // One at its end stays there if an exit watch has it.
            Late::Stands(_) | Late::AtEnd => self.let_go(tid, 0).is_err(),
        });
    }

    /// Waits for late threads to come or to end. The kernel keeps an exec waiting until the end of each
    /// other thread is taken in: it must not wait for as long as this process happens to have other work.
    pub(crate) fn see_off(&self, tids: &[i32], patience: Duration) {
        let deadline = Instant::now() + patience;
        while tids.iter().any(|&tid| self.threads.is_late(tid)) && Instant::now() < deadline {
            self.release_late();
            self.waiter.clear();
            if tids.iter().any(|&tid| self.threads.is_late(tid)) {
                self.waiter.sleep(Duration::from_millis(1));
            }
        }
    }

    /// What became of a late thread. Its end, and what its process became, are the exit watch's as they are in
    /// a stop: if it did not hear of them, an exec would wait for the thread to be taken in, for ever.
    fn look_at_late(&self, tid: i32) -> Late {
        match self.tracer().look(tid) {
            Seen::Nothing => Late::Waits,
            Seen::Ended => {
                self.reap_thread(tid);
                Late::Over
            }
            Seen::Event(libc::PTRACE_EVENT_EXIT) if self.threads.stands_at_end() => {
                self.threads.add_at_end(tid);
                Late::AtEnd
            }
            Seen::Event(libc::PTRACE_EVENT_EXEC) if self.threads.has_kept() => {
                self.threads.set_execed();
                Late::Over
            }
            seen => Late::Stands(seen),
        }
    }

    /// Consumes the end of a thread, but never that of the process: its status is for the session.
    pub(crate) fn reap_thread(&self, tid: i32) {
        if tid != self.process.pid() {
            self.tracer().reap(tid);
        }
    }
}

/// What became of a thread that was told to stop and did not come in time.
enum Late {
    /// It still does not come.
    Waits,
    /// It is none any more.
    Over,
    /// It stands at its end, for the exit watch.
    AtEnd,
    /// It stands.
    Stands(Seen),
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
