//! A timer that sends a signal to the thread that made it, again and again. By the kernel's calls, as not
//! every libc has them under the same name.
//!
//! # Safety
//! The kernel reads and writes no more than the values whose addresses it gets.
#![allow(unsafe_code)]

use std::{ptr, time::Duration};

use nix::{
    errno::Errno,
    sys::{signal::Signal, time::TimeSpec},
};

/// It ends with this; not set at first.
#[derive(Debug)]
pub(super) struct ThreadTimer {
    id: libc::c_int,
}

impl ThreadTimer {
    /// One that sends this signal to this thread.
    pub(super) fn new(signal: Signal) -> Result<Self, Errno> {
        let mut id: libc::c_int = 0;
        // SAFETY: numbers and addresses that are not followed, all of which can be 0.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal as libc::c_int;
        event.sigev_notify_thread_id = nix::unistd::gettid().as_raw();
        // SAFETY: the first is read, the kernel's number of a timer is written to the second.
        Errno::result(unsafe {
            libc::syscall(
                libc::SYS_timer_create,
                libc::CLOCK_MONOTONIC,
                &raw const event,
                &raw mut id,
            )
        })?;
        Ok(Self { id })
    }

    /// Sends it every so often from now on, or never if that is no time at all.
    pub(super) fn every(&self, interval: Duration) {
        let interval = *TimeSpec::from(interval).as_ref();
        let times = libc::itimerspec { it_interval: interval, it_value: interval };
        let old = ptr::null_mut::<libc::itimerspec>();
        // SAFETY: the times are read; a timer that exists can be set to any.
        let _ =
            unsafe { libc::syscall(libc::SYS_timer_settime, self.id, 0, &raw const times, old) };
    }
}

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        // SAFETY: nothing else knows its number.
        let _ = unsafe { libc::syscall(libc::SYS_timer_delete, self.id) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use nix::sys::signal::{SigSet, SigmaskHow};

    use super::*;

    #[test]
    fn the_thread_gets_the_signal_until_the_timer_is_set_to_nothing() {
        let mut all = SigSet::empty();
        all.add(Signal::SIGWINCH);
        let before = all.thread_swap_mask(SigmaskHow::SIG_BLOCK).expect("a mask");
        let timer = ThreadTimer::new(Signal::SIGWINCH).expect("a timer");
        timer.every(Duration::from_millis(1));
        for _ in 0..3 {
            assert_eq!(all.wait(), Ok(Signal::SIGWINCH));
        }
        timer.every(Duration::ZERO);
        // One can be on its way.
        let pending = || {
            let pending = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let line = pending.lines().find(|line| line.starts_with("SigPnd")).unwrap_or("");
            !line.trim_end().ends_with("0000000000000000")
        };
        if pending() {
            all.wait().expect("the last one");
        }
        sleep(Duration::from_millis(20));
        assert!(!pending(), "none any more");
        before.thread_set_mask().expect("the mask of before");
    }
}
