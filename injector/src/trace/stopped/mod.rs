//! Every thread of the target, stopped; they run on when the guard goes.

pub mod rseq;
pub mod user_dispatch;

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use crate::arch::{self, Registers};
use crate::trace::{insist::insist, seen::Seen, target::Target, tracer::Tracer};

/// A thread that does not stop is looked at more closely after this long.
const CLOSER_LOOK: Duration = Duration::from_millis(2);

/// How long each try may hold the target while threads of it are missing.
const PATIENCE_MS: [u64; 5] = [20, 50, 100, 300, 1000];

/// And how much longer for each thread it has: several times what one takes.
const PATIENCE_A_THREAD: Duration = Duration::from_micros(100);

/// How long the missing are waited for while the others run.
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// A stopped thread.
#[derive(Debug)]
pub struct StoppedThread {
    /// Its id.
    pub tid: i32,
    /// Its registers as the stop found them.
    pub registers: Registers,
}

/// Why the target could not be stopped as a whole.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The kernel does not let us trace it.
    #[error("thread {tid} cannot be traced")]
    Seize {
        /// The thread.
        tid: i32,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A thread stayed in the kernel.
    #[error("thread {tid} did not stop within {waited:?}: it is in state {state}")]
    Deadline {
        /// The thread.
        tid: i32,
        /// Its state letter.
        state: char,
        /// How long we waited.
        waited: Duration,
    },
    /// No session is wanted any more.
    #[error("interrupted before the target was stopped")]
    Unwanted,
    /// There is nothing left to stop.
    #[error("the process ended, or became another program")]
    Gone,
    /// A request failed.
    #[error("stopping thread {tid} failed")]
    Request {
        /// The thread.
        tid: i32,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
}

/// What a stop cost the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopCost {
    /// Threads that were stopped.
    pub threads: usize,
    /// From the first interruption to the last release, with tries that were given up.
    pub stopped: Duration,
}

/// The stop itself.
#[derive(Debug)]
pub struct Stopped<'t> {
    target: &'t Target,
    threads: Vec<StoppedThread>,
    /// Threads in a vfork: they cannot reach user mode before we let them.
    vforking: Vec<i32>,
    since: Instant,
    /// How long tries that were given up held it before.
    before: Duration,
    released: bool,
}

impl<'t> Stopped<'t> {
    /// Stops every thread, those created meanwhile too. While one of them does not come, since it
    /// gets no processor or the kernel holds it, the others do not wait for it for long: they run
    /// on, and it is waited for alone.
    ///
    /// # Errors
    /// When not all stop in time; those that did run again.
    pub fn all(target: &'t Target) -> Result<Self, StopError> {
        if !target.permit.is_granted() {
            return Err(StopError::Unwanted);
        }
        let mut before = Duration::ZERO;
        let mut tries = PATIENCE_MS.into_iter();
        loop {
            let since = Instant::now();
            let patience = Duration::from_millis(tries.next().unwrap_or_default());
            match Self::within(target, since + patience) {
                Ok(mut stop) => {
                    stop.before = before;
                    return Ok(stop);
                }
                Err(StopError::Deadline { tid, state, .. }) if tries.len() == 0 => {
                    let waited = before + since.elapsed();
                    return Err(StopError::Deadline { tid, state, waited });
                }
                Err(StopError::Deadline { .. }) => {
                    before += since.elapsed();
                    target.hold_late(BETWEEN_TRIES);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn within(target: &'t Target, mut deadline: Instant) -> Result<Self, StopError> {
        if target.threads.has_execed() {
            // It is stopped already, by another tracer.
            return Err(StopError::Gone);
        }
        let mut stop = Self::begin(target);
        let mut known: HashSet<i32> = HashSet::new();
        let mut held = target.threads.take_held().into_iter();
        while let Some(tid) = held.next() {
            known.insert(tid);
            if let Err(error) = stop.push(tid) {
                target.threads.hold(held);
                return Err(error);
            }
        }
        loop {
            let listed = target.process.threads().map_err(|_| StopError::Gone)?;
            let fresh: Vec<i32> = listed.iter().copied().filter(|tid| known.insert(*tid)).collect();
            if fresh.is_empty() {
                stop.dismiss_strangers(&listed);
                break;
            }
            let fresh = stop.seize(&fresh, deadline)?;
            if stop.threads.is_empty() {
                // Seizing disturbs no thread: the target is stopped from here on.
                stop.since = Instant::now();
            }
            stop.interrupt(&fresh)?;
            deadline += PATIENCE_A_THREAD * u32::try_from(fresh.len()).unwrap_or(u32::MAX);
            for (index, &tid) in fresh.iter().enumerate() {
                if let Err(error) = stop.collect(tid, deadline) {
                    // Those behind it are seized too, and stop when they do; but after an exec there
                    // are none.
                    if !target.threads.has_execed() {
                        target.threads.add_late(fresh[index..].iter().copied());
                    }
                    return Err(error);
                }
            }
        }
        if stop.threads.is_empty() { Err(StopError::Gone) } else { Ok(stop) }
    }

    /// Takes over a single thread that is seized and stopped already.
    ///
    /// # Errors
    /// When its registers cannot be read.
    pub fn adopt(target: &'t Target, tid: i32) -> Result<Self, StopError> {
        let mut stop = Self::begin(target);
        stop.push(tid)?;
        Ok(stop)
    }

    /// The same for several.
    ///
    /// # Errors
    /// When the registers of one cannot be read.
    pub fn adopt_all(target: &'t Target, tids: &[i32]) -> Result<Self, StopError> {
        let mut stop = Self::begin(target);
        tids.iter().try_for_each(|&tid| stop.push(tid))?;
        if stop.threads.is_empty() { Err(StopError::Gone) } else { Ok(stop) }
    }

    fn begin(target: &'t Target) -> Self {
        Self {
            target,
            threads: Vec::new(),
            vforking: Vec::new(),
            since: Instant::now(),
            before: Duration::ZERO,
            released: false,
        }
    }

    /// The stopped threads.
    pub fn threads(&self) -> &[StoppedThread] {
        &self.threads
    }

    /// Whether a vfork child runs in the target's memory.
    pub fn has_vfork_child(&self) -> bool {
        !self.vforking.is_empty()
    }

    /// The target.
    pub fn target(&self) -> &'t Target {
        self.target
    }

    /// Who traces it.
    pub(crate) fn tracer(&self) -> &'t Tracer {
        self.target.tracer()
    }

    /// Lets all threads run.
    pub fn finish(mut self) -> StopCost {
        self.release();
        StopCost { threads: self.threads.len(), stopped: self.before + self.since.elapsed() }
    }

    /// Lets go what is no thread of the target: one that ended between our list and our request may
    /// have left its number to a thread of another process, perhaps of another user.
    fn dismiss_strangers(&mut self, listed: &[i32]) {
        let listed: HashSet<i32> = listed.iter().copied().collect();
        let target = self.target;
        self.threads.retain(|thread| {
            let is_own = listed.contains(&thread.tid);
            if !is_own && target.let_go(thread.tid, 0) == Err(Errno::ESRCH) {
                target.reap_thread(thread.tid);
            }
            is_own
        });
    }

    /// Seizes; answers those that are now ours.
    fn seize(&self, tids: &[i32], deadline: Instant) -> Result<Vec<i32>, StopError> {
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
    fn interrupt(&self, tids: &[i32]) -> Result<(), StopError> {
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
    fn abandon(&self, tids: &[i32]) {
        for &tid in tids {
            let _ = insist(|| self.tracer().interrupt(tid));
        }
        self.target.threads.add_late(tids.iter().copied());
    }

    /// Waits until the thread has stopped for us.
    fn collect(&mut self, tid: i32, deadline: Instant) -> Result<(), StopError> {
        // Met at its end before: it stands there.
        if self.target.threads.is_at_end(tid) {
            return self.push(tid);
        }
        loop {
            let soon = deadline.min(Instant::now() + CLOSER_LOOK);
            let mut seen = self.target.waiter.wait(tid, soon);
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
                // It goes no further than its end, and the keeper wants to know.
                Seen::Event(libc::PTRACE_EVENT_EXIT) if self.target.threads.stands_at_end() => {
                    self.target.threads.add_at_end(tid);
                    return self.push(tid);
                }
                // What was to be stopped is gone; what it became is for the keeper.
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
    fn late(&self, tid: i32) -> StopError {
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

    fn push(&mut self, tid: i32) -> Result<(), StopError> {
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

    fn release(&mut self) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        for thread in &self.threads {
            match self.target.let_go(thread.tid, 0) {
                Ok(()) => {}
                // Borrowed, and not back yet: it is let go when it stops.
                Err(Errno::ESRCH) if self.target.traces(thread.tid) => {
                    self.abandon(&[thread.tid]);
                }
                // Killed while it was stopped.
                Err(Errno::ESRCH) => self.target.reap_thread(thread.tid),
                Err(_) => {
                    self.target.threads.add_late([thread.tid]);
                }
            }
        }
        self.target.threads.add_late(self.vforking.drain(..));
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// The thread to borrow for system calls: of those that suffer least, the first.
pub fn choose_carrier<'s>(stop: &'s Stopped<'_>) -> Option<&'s StoppedThread> {
    carriers(stop).next().or_else(|| by_suffering(stop).first().copied())
}

/// The threads that can be borrowed well, those that suffer least first.
pub(crate) fn carriers<'s>(stop: &'s Stopped<'_>) -> impl Iterator<Item = &'s StoppedThread> {
    let is_free =
        |t: &&StoppedThread| rseq::section(stop, t).is_none() && !user_dispatch::is_on(stop, t.tid);
    by_suffering(stop).into_iter().filter(is_free)
}

fn by_suffering<'s>(stop: &'s Stopped<'_>) -> Vec<&'s StoppedThread> {
    let mut threads: Vec<&StoppedThread> =
        stop.threads.iter().filter(|thread| !stop.target.threads.is_at_end(thread.tid)).collect();
    threads.sort_by_key(|t| arch::activity(&t.registers));
    threads
}

#[cfg(test)]
mod live_tests;
