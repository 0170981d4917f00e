//! Rows of requests for lent threads ([`crate::trace::walk`]).

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::{Family, Halt};
use crate::trace::{
    insist::insist,
    seen::Seen,
    tracer::Tracer,
    wait,
    walk::{Step, Walk},
};

/// How long a stop is looked for before others have their turn.
const PATIENCE: Duration = Duration::from_micros(200);

impl Family {
    /// Makes the steps, as far as nothing else happens.
    pub(super) fn walk(&mut self, lease: u64, tid: i32, steps: &[Step]) -> Walk {
        let mut walk = Walk::default();
        for step in steps {
            match self.step(lease, tid, step) {
                Ok(true) => walk.done += 1,
                Ok(false) => {
                    walk.runs = true;
                    return walk;
                }
                Err(errno) => {
                    walk.failed = Some(errno);
                    return walk;
                }
            }
        }
        walk.registers = insist(|| Tracer::Own.registers(tid)).ok();
        walk
    }

    /// Whether the step was made; if not, the thread runs, or did something else.
    fn step(&mut self, lease: u64, tid: i32, step: &Step) -> Result<bool, Errno> {
        self.permit(lease, tid)?;
        match step {
            Step::Registers(_) | Step::Mask(_) => Tracer::Own.write(tid, step).map(|()| true),
            // It goes no further, and the session that borrowed it is to give up.
            Step::ToCall | Step::ToInterrupt if self.is_held_at_end(tid) => Err(Errno::ESRCH),
            Step::ToCall => {
                insist(|| Tracer::Own.resume_to_syscall(tid, 0))?;
                Ok(self.comes_to(tid, Seen::Call))
            }
            Step::ToInterrupt => {
                insist(|| Tracer::Own.interrupt(tid))?;
                insist(|| Tracer::Own.resume(tid, 0))?;
                Ok(self.comes_to(tid, Seen::Interrupted))
            }
        }
    }

    /// Whether a thread that was made to run comes to this stop soon. Of any other stop its lease hears
    /// as ever.
    fn comes_to(&mut self, tid: i32, wanted: Seen) -> bool {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            (tracee.halt, tracee.is_kept) = (None, false);
        }
        let late = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = wait::next_stop(tid) {
                let is_wanted = wait::meaning(status) == wanted && !is_of_group(status);
                if let Some(tracee) = self.tracees.get_mut(&tid).filter(|_| is_wanted) {
                    tracee.halt = Some(Halt::Other);
                    return true;
                }
                self.stopped(tid, status);
                return false;
            }
            if Instant::now() >= late {
                return false;
            }
            std::hint::spin_loop();
        }
    }
}

/// Whether it stopped with its whole process, which it must go on with when it is let go.
fn is_of_group(status: i32) -> bool {
    wait::meaning(status) == Seen::Interrupted && status & 0xff != libc::SIGTRAP
}
