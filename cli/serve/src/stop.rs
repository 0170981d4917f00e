//! The end of a server, for all who wait for it: first pages take what came last, then nothing is answered.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// How far the end has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Serving,
    Closing,
    Over,
}

/// Says when it is over.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<State>);

#[derive(Debug)]
struct State {
    phase: Mutex<Phase>,
    moved: Condvar,
    /// Readable once it is over, for those that wait for something else as well.
    wire: Option<EventFd>,
}

impl Default for State {
    fn default() -> Self {
        let wire = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).ok();
        Self { phase: Mutex::default(), moved: Condvar::new(), wire }
    }
}

impl Stop {
    /// It is over.
    pub fn set(&self) {
        self.advance(Phase::Over);
        if let Some(wire) = &self.0.wire {
            let _ = wire.write(1);
        }
    }

    /// A descriptor that is readable once it is over; `None` where there can be none.
    pub fn wire(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.wire.as_ref()?.as_fd())
    }

    /// It is over soon: no more will be recorded than is there now.
    pub fn close(&self) {
        self.advance(Phase::Closing);
    }

    /// Whether it is over.
    pub fn is_set(&self) -> bool {
        *self.phase() == Phase::Over
    }

    /// Whether it is over, or soon will be.
    pub fn is_closing(&self) -> bool {
        *self.phase() >= Phase::Closing
    }

    /// Waits so long, or until it is over.
    pub fn wait(&self, time: Duration) {
        self.wait_for(time, Phase::Over);
    }

    /// Waits so long, or until it is over soon.
    pub fn wait_closing(&self, time: Duration) {
        self.wait_for(time, Phase::Closing);
    }

    fn advance(&self, to: Phase) {
        let mut phase = self.phase();
        *phase = to.max(*phase);
        self.0.moved.notify_all();
    }

    fn wait_for(&self, time: Duration, end: Phase) {
        let _ = self.0.moved.wait_timeout_while(self.phase(), time, |phase| *phase < end);
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
