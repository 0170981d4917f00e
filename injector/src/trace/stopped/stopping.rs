//! How each thread comes to stand: seized, told to stop, and waited for.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::{StopError, Stopped, StoppedThread};
use crate::trace::{insist::insist, seen::Seen};

/// A thread that does not stop is looked at more closely after this long.
const CLOSER_LOOK: Duration = Duration::from_millis(2);

impl Stopped<'_> {
    /// Seizes; answers those that are now ours.
    pub(super) fn seize(&self, tids: &[i32], deadline: Instant) -> Result<Vec<i32>, StopError> {
        let mut seized = Vec::with_capacity(tids.len());
        for &tid in tids {
            let threads = &self.target.threads;
            if threads.is_late(tid) || threads.is_kept(tid) {
                seized.push(tid);
                continue;
            }
            let mut answer = self.tracer().seize(tid, self.target.options);
            while answer == Err(Errno::EINTR) && Instant::now() < deadline {
                self.reap_others(tid);
                answer = self.tracer().seize(tid, self.target.options);
            }
            match answer {
                Ok(()) => seized.push(tid),
                Err(Errno::ESRCH) => {}
                Err(Errno::EINTR) => {
                    self.abandon(&seized);
                    return Err(self.late(tid));
                }
                // The kernel says EPERM of the dead, too.
                Err(source) => match self.target.process.thread_state(tid) {
                    None | Some('Z' | 'X') => {}
                    // It was born traced and no one has looked since, or it was given up while it
                    // did not answer: the kernel lets no thread be seized twice.
                    Some(_) if source == Errno::EPERM && self.target.traces(tid) => {
                        if self.target.threads.has_kept() {
                            self.target.threads.keep(tid);
                        }
                        seized.push(tid);
                    }
                    Some(_) => {
                        self.abandon(&seized);
                        return Err(StopError::Seize { tid, source });
                    }
                },
            }
        }
        Ok(seized)
    }

    /// Tells all of them to stop.
    pub(super) fn interrupt(&self, tids: &[i32]) -> Result<(), StopError> {
        for &tid in tids {
            match insist(|| self.tracer().interrupt(tid)) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(source) => {
                    self.abandon(tids);
                    return Err(StopError::Request { tid, source });
                }
            }
        }
        self.target.threads.remove_late(tids);
        Ok(())
    }

    /// Threads that are ours and are not wanted: they stop once more, and are let go then.
    pub(super) fn abandon(&self, tids: &[i32]) {
        for &tid in tids {
            let _ = insist(|| self.tracer().interrupt(tid));
        }
        self.target.threads.add_late(tids.iter().copied());
    }

    /// Waits until the thread has stopped for us, the first of so many that were told to.
    pub(super) fn collect(
        &mut self,
        tid: i32,
        among: usize,
        deadline: Instant,
    ) -> Result<(), StopError> {
        // Met at its end before: it stands there.
        if self.target.threads.is_at_end(tid) {
            return self.push(tid);
        }
        loop {
            let soon = deadline.min(Instant::now() + CLOSER_LOOK);
            let mut seen = self.target.waiter.wait_among(tid, among, soon);
            // What the tracing thread sees for a lease comes to us a little later.
            if seen == Seen::Nothing
                && !self.tracer().is_lent()
                && self.target.process.thread_state(tid) == Some('t')
            {
                // It stands. If that is not news, it was told of before, and will not be again.
                seen = self.target.waiter.wait(tid, Instant::now());
                if seen == Seen::Nothing {
                    self.interrupt_next(tid, 0)?;
                }
            }
            match seen {
                Seen::Interrupted => return self.push(tid),
                // It met a signal first: let it take that. Any stop makes the kernel forget that
                // another was asked for, so it is asked for again before the thread runs on.
                Seen::Signal(signal) => self.interrupt_next(tid, signal)?,
                // It goes no further than its end, and the exit watch wants to know.
                Seen::Event(libc::PTRACE_EVENT_EXIT) if self.target.threads.stands_at_end() => {
                    self.target.threads.add_at_end(tid);
                    return self.push(tid);
                }
                // What was to be stopped is gone; what it became is for the exit watch.
                Seen::Event(libc::PTRACE_EVENT_EXEC) if self.target.threads.has_kept() => {
                    self.target.threads.set_execed();
                    return Err(StopError::Gone);
                }
                Seen::Call | Seen::Event(_) => self.interrupt_next(tid, 0)?,
                Seen::Ended => {
                    self.target.reap_thread(tid);
                    return Ok(());
                }
                Seen::Nothing if self.is_vforking(tid) => {
                    self.vforking.push(tid);
                    return Ok(());
                }
                Seen::Nothing if Instant::now() >= deadline => return Err(self.late(tid)),
                Seen::Nothing if self.target.process.thread_state(tid) == Some('D') => {
                    self.reap_others(tid);
                }
                Seen::Nothing => {}
            }
        }
    }

    /// It did not stop in time.
    pub(super) fn late(&self, tid: i32) -> StopError {
        let state = self.target.process.thread_state(tid).unwrap_or('?');
        StopError::Deadline { tid, state, waited: self.since.elapsed() }
    }

    /// A thread that execs does nothing else before all others are gone: of a dead one that we trace the
    /// kernel waits for us to take its end in.
    fn reap_others(&self, tid: i32) {
        for other in self.target.process.threads().unwrap_or_default() {
            if other != tid && self.target.process.thread_state(other) == Some('Z') {
                self.target.reap_thread(other);
            }
        }
    }

    /// Lets it take the signal, if any, and run on to the next stop, which is ours.
    fn interrupt_next(&self, tid: i32, signal: i32) -> Result<(), StopError> {
        let asked = self.tracer().interrupt_next(tid, signal);
        asked.map_err(|source| StopError::Request { tid, source })
    }

    pub(super) fn push(&mut self, tid: i32) -> Result<(), StopError> {
        match insist(|| self.tracer().registers(tid)) {
            Ok(registers) => self.threads.push(StoppedThread { tid, registers }),
            // Killed while it was stopped.
            Err(Errno::ESRCH) => {}
            Err(source) => {
                self.target.threads.add_late([tid]);
                return Err(StopError::Request { tid, source });
            }
        }
        Ok(())
    }

    /// In the kernel until its vfork child execs or exits; it cannot be stopped, nor get away.
    fn is_vforking(&self, tid: i32) -> bool {
        if self.target.process.thread_state(tid) != Some('D') {
            return false;
        }
        let call = self.target.process.call_of(tid);
        matches!(call, Some(libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3))
    }
}
