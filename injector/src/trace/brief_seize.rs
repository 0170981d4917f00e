//! `PTRACE_SEIZE` that gives up. It waits while the process becomes another program, and that waits for
//! all other threads to be gone, their ends taken in by their tracers. So who has seized one thread
//! and seizes the next meanwhile waits for itself, for ever, and the target with it; and who seizes the
//! first may wait for another tracer as long. A timer ends the wait.
//!
//! # Safety
//! The handler that is installed is made for it, and calls nothing.
#![allow(unsafe_code)]

use std::{sync::OnceLock, time::Duration};

use nix::{
    errno::Errno,
    sys::{
        ptrace::Options,
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
    },
};

use super::thread_timer::ThreadTimer;
use crate::arch;

/// How long it waits at most, and how long until it is told again to end: it may not have begun.
const PATIENCE: Duration = Duration::from_millis(5);

/// Nothing happens to a program that gets it and does not want it.
const SIGNAL: Signal = Signal::SIGURG;

thread_local! {
    static ALARM: Option<ThreadTimer> = alarm();
}

/// Seizes; `EINTR` says that it was waited for too long.
pub(super) fn seize(tid: i32, options: Options) -> Result<(), Errno> {
    ALARM.with(|alarm| {
        let set = |interval| alarm.iter().for_each(|alarm| alarm.every(interval));
        set(PATIENCE);
        let seized = arch::seize_briefly(tid, options.bits());
        set(Duration::ZERO);
        seized
    })
}

/// The timer of this thread; none where the signal is another's, or there are no more timers: then it waits
/// as the kernel has it.
fn alarm() -> Option<ThreadTimer> {
    static IS_OURS: OnceLock<bool> = OnceLock::new();
    if !*IS_OURS.get_or_init(install) {
        return None;
    }
    let mut mask = SigSet::empty();
    mask.add(SIGNAL);
    mask.thread_unblock().ok()?;
    ThreadTimer::new(SIGNAL).ok()
}

/// Installs the handler of the signal, unless the program has one already.
fn install() -> bool {
    let action = |handler, flags| SigAction::new(handler, flags, SigSet::empty());
    let ours = SigHandler::SigAction(arch::end_brief_call);
    // SAFETY: the handler has the signature that the flag asks for, and calls nothing.
    let before =
        unsafe { sigaction(SIGNAL, &action(ours, SaFlags::SA_SIGINFO | SaFlags::SA_RESTART)) };
    match before {
        Ok(before) if matches!(before.handler(), SigHandler::SigDfl | SigHandler::SigIgn) => true,
        Ok(before) => {
            // SAFETY: what was installed before is installed again.
            let _ = unsafe { sigaction(SIGNAL, &before) };
            false
        }
        Err(_) => false,
    }
}
