//! A row of requests for one stopped thread, which the tracing thread of a family makes in one go:
//! one by one, each would have two threads wait for one another.
//!
//! A walk ends early where something happens that was not expected. The caller makes the rest
//! one by one then, as for a thread that is not lent: a walk saves time, and decides nothing.

use nix::errno::Errno;

use crate::arch::{Registers, SignalMask};
use crate::trace::{insist::insist, tracer::Tracer};

/// One request, or those that lead to a stop.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `PTRACE_SETREGS`.
    Registers(Box<Registers>),
    /// `PTRACE_SETSIGMASK`.
    Mask(SignalMask),
    /// On to the next entry into a system call, or to the return from it.
    ToCall,
    /// On to a stop that we asked for.
    ToInterrupt,
}

/// How far it came.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Steps that were made.
    pub(crate) done: usize,
    /// The next one was begun: the thread runs, and what it does is told as ever.
    pub(crate) runs: bool,
    /// Its registers, after all steps.
    pub(crate) registers: Option<Registers>,
    /// Why the next one failed.
    pub(crate) failed: Option<Errno>,
}

impl Tracer {
    /// Makes these steps, where the tracing thread of a family makes them; otherwise none of them.
    ///
    /// # Errors
    /// When a step failed; none was made after it.
    pub(crate) fn walk(&self, tid: i32, steps: &[Step]) -> Result<Walk, Errno> {
        match self {
            Self::Own => Ok(Walk::default()),
            Self::Lent(holding) => {
                let walk = holding.walk(tid, steps.to_vec())?;
                walk.failed.map_or(Ok(walk), Err)
            }
        }
    }

    /// Makes a step that does not let the thread run.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub(crate) fn write(&self, tid: i32, step: &Step) -> Result<(), Errno> {
        match step {
            Step::Registers(registers) => insist(|| self.set_registers(tid, registers)),
            Step::Mask(mask) => insist(|| self.set_signal_mask(tid, *mask)),
            Step::ToCall | Step::ToInterrupt => Err(Errno::EINVAL),
        }
    }
}
