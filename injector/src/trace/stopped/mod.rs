//! Every thread of the target, stopped; they run on when the guard goes.

mod precedence;
pub mod rseq;
mod stopping;
pub mod user_dispatch;

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use crate::arch::{self, Registers};
use crate::trace::{target::Target, tracer::Tracer};

use precedence::Precedence;

/// How long each try may hold the target while threads of it are missing.
const PATIENCE_MS: [u64; 5] = [20, 50, 100, 300, 1000];

/// And how much longer for each thread it has: several times what one takes.
const PATIENCE_A_THREAD: Duration = Duration::from_micros(100);

/// How long the missing are waited for while the others run.
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// How long those are waited for, after a stop, that could not be let go in it. All others run by then.
const SEEN_OFF: Duration = Duration::from_millis(100);

/// Fewer threads than this are listed sooner than counted.
const MANY: usize = 16;

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
    /// Ours over all else that the machine has to do meanwhile.
    precedence: Precedence,
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
        while !stop.has_all() {
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
                if let Err(error) = stop.collect(tid, fresh.len() - index, deadline) {
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
            precedence: Precedence::take(),
        }
    }

    /// Takes turns with the rest of the machine, as what follows in the stop takes long.
    pub fn take_turns(&mut self) {
        self.precedence.end();
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

    /// Whether the threads that stand are all threads of the target, and no other's, where they are many;
    /// else they are listed.
    fn has_all(&self) -> bool {
        let standing = self.threads.iter().map(|thread| thread.tid);
        let all: Vec<i32> = standing.chain(self.vforking.iter().copied()).collect();
        all.len() >= MANY && self.target.process.has_only(&all)
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

    fn release(&mut self) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        let mut missing = Vec::new();
        for thread in &self.threads {
            match self.target.let_go(thread.tid, 0) {
                Ok(()) => {}
                // Borrowed, and not back yet: it is let go when it stops. Or it comes to its end, since
                // another one, let go before it, execs.
                Err(Errno::ESRCH) if self.target.traces(thread.tid) => {
                    self.abandon(&[thread.tid]);
                    missing.push(thread.tid);
                }
                // Killed while it was stopped.
                Err(Errno::ESRCH) => self.target.reap_thread(thread.tid),
                Err(_) => {
                    self.target.threads.add_late([thread.tid]);
                }
            }
        }
        self.target.threads.add_late(self.vforking.drain(..));
        self.precedence.end();
        self.target.see_off(&missing, SEEN_OFF);
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
