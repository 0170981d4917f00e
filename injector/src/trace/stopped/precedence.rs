//! While the target is stopped, the thread that stopped it goes before all that share the processors by
//! weight: whatever else the machine has to do, it makes no stop longer. On a full machine a thread may
//! wait for milliseconds, and with Linux 6.18 in a busy group of sessions for many seconds.
//!
//! That takes `CAP_SYS_NICE`; without it all is as it was.
//!
//! # Safety
//! The kernel reads no more than the value whose address it gets; by its own calls, since musl has them
//! fail.
#![allow(unsafe_code)]

use std::ptr;

use nix::errno::Errno;

/// The thread goes before others until this goes.
#[derive(Debug)]
pub(super) struct Precedence {
    /// The thread, if it was raised by this and is not lowered again.
    raised: Option<i32>,
}

impl Precedence {
    /// Of the calling thread.
    pub(super) fn take() -> Self {
        let tid = nix::unistd::gettid().as_raw();
        // One that goes before others already keeps what it has.
        let is_ordinary = policy(tid) == Ok(libc::SCHED_OTHER);
        // Processes and threads that it makes meanwhile are ordinary ones.
        let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
        let is_raised = is_ordinary && set(tid, policy, 1).is_ok();
        Self { raised: is_raised.then_some(tid) }
    }

    /// Takes its turn like others again, as for work that takes long.
    pub(super) fn end(&mut self) {
        if let Some(tid) = self.raised.take() {
            // Who was allowed the one is allowed the other.
            let _ = set(tid, libc::SCHED_OTHER, 0);
        }
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        self.end();
    }
}

fn policy(tid: i32) -> Result<libc::c_int, Errno> {
    // SAFETY: numbers alone.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) };
    Errno::result(policy).map(|policy| libc::c_int::try_from(policy).unwrap_or(-1))
}

fn set(tid: i32, policy: libc::c_int, priority: libc::c_int) -> Result<(), Errno> {
    // Kernels read the first field alone.
    // SAFETY: a number; musl has more fields, which may all be 0.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    let param = ptr::from_ref(&param);
    // SAFETY: the kernel reads the value.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, param) };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAISED: Result<libc::c_int, Errno> = Ok(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK);
    const ORDINARY: Result<libc::c_int, Errno> = Ok(libc::SCHED_OTHER);

    #[test]
    fn a_thread_goes_before_others_until_the_end_and_its_children_do_not() {
        let tid = nix::unistd::gettid().as_raw();
        let mut precedence = Precedence::take();
        if precedence.raised.is_none() {
            // Without CAP_SYS_NICE nothing may change.
            assert_eq!(policy(tid), ORDINARY);
            return;
        }
        assert_eq!(policy(tid), RAISED);
        let of_child = std::thread::spawn(|| policy(nix::unistd::gettid().as_raw()));
        assert_eq!(of_child.join().unwrap(), ORDINARY);
        // One stop within another leaves it to the outer one.
        drop(Precedence::take());
        assert_eq!(policy(tid), RAISED);
        precedence.end();
        assert_eq!(policy(tid), ORDINARY);
        drop(precedence);
        assert_eq!(policy(tid), ORDINARY);
        let _again = Precedence::take();
        assert_eq!(policy(tid), RAISED);
    }

    #[test]
    fn another_thread_may_end_it() {
        let tid = nix::unistd::gettid().as_raw();
        let precedence = Precedence::take();
        std::thread::spawn(move || drop(precedence)).join().unwrap();
        assert_eq!(policy(tid), ORDINARY);
    }
}
