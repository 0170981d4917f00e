//! Who traces a target: the thread that has it open, or the tracing thread of a family, which lends
//! its threads ([`crate::trace::delegated`]). Every target is opened with one of them, and every ptrace
//! request, wait and look for a thread of it goes through it; the requests are in
//! [`crate::trace::ptrace`].
//!
//! The kernel takes requests from the very thread that seized: a target that is traced by its own
//! thread must be used by no other.

use std::sync::Arc;

use nix::errno::Errno;

use crate::trace::{
    delegated::{Effect, Holding},
    seen::Seen,
    wait,
};

/// Who makes the requests.
#[derive(Clone, Debug)]
pub enum Tracer {
    /// The thread that asks.
    Own,
    /// The tracing thread of a family, on behalf of the thread that has this lease.
    Lent(Arc<Holding>),
}

impl Tracer {
    /// Whether another thread traces.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self, Self::Lent(_))
    }

    /// Whether the process may have made another since it was lent; of others that is not known.
    pub(crate) fn may_have_forked(&self) -> bool {
        match self {
            Self::Own => true,
            Self::Lent(holding) => holding.has_forked(),
        }
    }

    /// Whether the process is known to have become another program, which may have ended since.
    pub(crate) fn has_execed(&self) -> bool {
        match self {
            Self::Own => false,
            Self::Lent(holding) => holding.has_execed(),
        }
    }

    /// What a thread did, without waiting. The end of a thread is only looked at, not consumed: it
    /// belongs to the one that wants the exit status.
    pub(crate) fn look(&self, tid: i32) -> Seen {
        match self {
            Self::Own => wait::look(tid),
            Self::Lent(holding) => holding.look(tid),
        }
    }

    /// Consumes the end of a thread; of one that is lent, the tracing thread does.
    pub(crate) fn reap(&self, tid: i32) -> Option<i32> {
        match self {
            Self::Own => wait::reap(tid),
            Self::Lent(_) => None,
        }
    }

    /// Makes a request that has consequences, here or in the tracing thread.
    pub(super) fn tell(
        &self,
        tid: i32,
        effect: Effect,
        request: impl FnOnce() -> Result<(), Errno> + Send + 'static,
    ) -> Result<(), Errno> {
        match self {
            Self::Own => request(),
            Self::Lent(holding) => holding.tell(tid, effect, request),
        }
    }

    /// Makes a request that lets nothing run, here or in the tracing thread.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        tid: i32,
        request: impl FnOnce() -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        match self {
            Self::Own => request(),
            Self::Lent(holding) => holding.ask(tid, request),
        }
    }

    /// Makes a request that only the tracer itself has use for: no other thread makes it.
    pub(super) fn alone<T>(&self, request: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self {
            Self::Own => request(),
            // What the kernel tells a thread that is not the tracer.
            Self::Lent(_) => Err(Errno::ESRCH),
        }
    }
}
