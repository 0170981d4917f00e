//! Waiting for a traced thread, always with a deadline.
//!
//! waitid(2) is called directly: nix has no name for real-time signals, and a stop whose report it
//! cannot express would be lost. Of threads that are lent ([`crate::trace::delegated`]) the tracing thread
//! tells instead.
//!
//! # Safety
//! waitid fills a local record of the kernel's own layout.
#![allow(unsafe_code)]

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        time::TimeSpec,
    },
};

use crate::trace::{seen::Seen, tracer::Tracer};

/// How often a thread is looked at before we sleep.
const SPINS: usize = 40;

/// As many threads do not stop within one look at each.
const MANY: usize = 16;
/// How long we sleep while many come.
const NAP: Duration = Duration::from_micros(50);

/// Waits for what a tracer sees; sleeps until children change, for the whole of the tracing process.
#[derive(Debug)]
pub struct Waiter {
    changes: SignalFd,
    tracer: Tracer,
}

impl Waiter {
    /// For threads that the calling thread traces.
    ///
    /// # Errors
    /// As [`Waiter::of`].
    pub fn new() -> Result<Self, Errno> {
        Self::of(Tracer::Own)
    }

    /// Blocks `SIGCHLD` in this process and listens to it here instead.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn of(tracer: Tracer) -> Result<Self, Errno> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let changes = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { changes, tracer })
    }

    /// Whose threads are waited for.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// The descriptor that becomes readable when a child changes.
    pub fn changes(&self) -> &SignalFd {
        &self.changes
    }

    /// Forgets the changes announced so far: the caller looks at all of them next.
    pub fn clear(&self) {
        // They are the tracing thread's.
        if self.tracer.is_lent() {
            return;
        }
        while let Ok(Some(_)) = self.changes.read_signal() {}
    }

    /// What the thread did; waits for it no longer than `deadline`.
    pub fn wait(&self, tid: i32, deadline: Instant) -> Seen {
        self.wait_among(tid, 1, deadline)
    }

    /// The same for one of so many that are about to do something.
    pub fn wait_among(&self, tid: i32, among: usize, deadline: Instant) -> Seen {
        if let Tracer::Lent(holding) = &self.tracer {
            return holding.wait(tid, deadline);
        }
        // Most stops come at once: sleeping would keep the target stopped for longer. Many do not, and come
        // sooner where we leave them the processor.
        let spins = if among < MANY { SPINS } else { 1 };
        for _ in 0..spins {
            let seen = look(tid);
            if seen != Seen::Nothing {
                return seen;
            }
            // Not sched_yield: every yield is a debt to the scheduler, and a stop that has to pay
            // it back holds the target for seconds.
            std::hint::spin_loop();
        }
        loop {
            let seen = look(tid);
            let left = deadline.saturating_duration_since(Instant::now());
            if seen != Seen::Nothing || left.is_zero() {
                return seen;
            }
            if among < MANY {
                self.sleep(left.min(Duration::from_millis(1)));
                self.clear();
            } else {
                // Each change of another would wake us for nothing.
                std::thread::sleep(left.min(NAP));
            }
        }
    }

    /// Sleeps until a child changes or `time` is over.
    pub fn sleep(&self, time: Duration) {
        if self.tracer.is_lent() {
            return std::thread::sleep(time);
        }
        let mut fds = [PollFd::new(self.changes.as_fd(), PollFlags::POLLIN)];
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(time)), None);
    }
}

/// What a thread did that the calling thread traces, without waiting; its end is not consumed.
pub(super) fn look(tid: i32) -> Seen {
    match wait_for(tid, libc::WSTOPPED) {
        Ok(Some((_, status))) => return meaning(status),
        Ok(None) => {}
        Err(_) => return Seen::Ended,
    }
    match wait_for(tid, libc::WEXITED | libc::WNOWAIT) {
        // Stops of traced threads are told whatever was asked for; the next look takes this one.
        Ok(None | Some((libc::CLD_TRAPPED | libc::CLD_STOPPED, _))) => Seen::Nothing,
        Ok(Some(_)) | Err(_) => Seen::Ended,
    }
}

/// What any thread did that we trace, without waiting; ends are not told.
pub fn look_at_any() -> Option<(i32, Seen)> {
    let changed = wait_id(libc::P_ALL, 0, libc::WSTOPPED).ok()??;
    let (tid, _, status) = changed;
    Some((tid, meaning(status)))
}

/// A thread that we trace and that has ended, or a child of ours; its end is not consumed.
pub(super) fn look_at_any_end() -> Option<i32> {
    let flags = libc::WEXITED | libc::WNOWAIT;
    let (tid, code, _) = wait_id(libc::P_ALL, 0, flags).ok()??;
    // Stops are told, too, and are looked at elsewhere.
    (!matches!(code, libc::CLD_TRAPPED | libc::CLD_STOPPED)).then_some(tid)
}

/// Consumes the end of a thread that was traced, so that its process can end too; tells how a
/// child ended, as wait(2) encodes it.
pub fn reap(tid: i32) -> Option<i32> {
    let (code, status) = wait_for(tid, libc::WEXITED).ok()??;
    Some(end(code, status))
}

/// The end of a child, as wait(2) encodes it.
fn end(code: i32, status: i32) -> i32 {
    match (code, status) {
        (libc::CLD_EXITED, code) => (code & 0xff) << 8,
        (libc::CLD_DUMPED, signal) => signal & 0x7f | 0x80,
        (_, signal) => signal & 0x7f,
    }
}

/// What some thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It ended, with this status of wait(2).
    Ended(i32),
    /// It stopped: the signal and, above it, the event.
    Stopped(i32),
}

/// What any thread or child did that was not told yet; its end is consumed.
pub(crate) fn next() -> Option<(i32, Change)> {
    let flags = libc::WSTOPPED | libc::WEXITED;
    let (tid, code, status) = wait_id(libc::P_ALL, 0, flags).ok()??;
    let change = match code {
        libc::CLD_TRAPPED | libc::CLD_STOPPED => Change::Stopped(status),
        _ => Change::Ended(end(code, status)),
    };
    Some((tid, change))
}

/// The stop of a thread that was not told yet: the signal and, above it, the event.
pub(super) fn next_stop(tid: i32) -> Option<i32> {
    wait_for(tid, libc::WSTOPPED).ok()?.map(|(_, status)| status)
}

/// The code and status of a change of `tid`, if there is one.
fn wait_for(tid: i32, flags: i32) -> Result<Option<(i32, i32)>, Errno> {
    let change = wait_id(libc::P_PID, tid.unsigned_abs(), flags)?;
    Ok(change.map(|(_, code, status)| (code, status)))
}

/// Who changed, code and status.
fn wait_id(
    kind: libc::idtype_t,
    id: libc::id_t,
    flags: i32,
) -> Result<Option<(i32, i32, i32)>, Errno> {
    // SAFETY: the record is plain numbers, for which zeroes are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = flags | libc::WNOHANG | libc::__WALL;
    // SAFETY: `info` outlives the call and has the layout the kernel writes.
    let result = unsafe { libc::waitid(kind, id, &raw mut info, flags) };
    Errno::result(result)?;
    // SAFETY: waitid leaves these fields of the record filled, or zero if there was no change.
    let pid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok((pid != 0).then_some((pid, info.si_code, status)))
}

/// `status` is a signal and, above it, the ptrace event.
pub(crate) fn meaning(status: i32) -> Seen {
    const CALL: i32 = libc::SIGTRAP | 0x80;
    match (status >> 8, status & 0xff) {
        (0, CALL) => Seen::Call,
        (0, signal) => Seen::Signal(signal),
        (libc::PTRACE_EVENT_STOP, _) => Seen::Interrupted,
        (event, _) => Seen::Event(event),
    }
}
