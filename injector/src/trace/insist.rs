//! Requests that fail for a reason of the moment.

use nix::errno::Errno;

use crate::trace::tracer::Tracer;

/// How often a request is made that must not fail on the way out.
const INSISTENCE: usize = 5;

/// Repeats a request that fails for a reason of the moment.
pub(crate) fn insist<T>(mut request: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut result = request();
    for _ in 1..INSISTENCE {
        match result {
            Ok(_) | Err(Errno::ESRCH) => break,
            Err(_) => result = request(),
        }
    }
    result
}

impl Tracer {
    /// Lets a stopped thread run on, with a signal or none, to the next stop, which is ours.
    pub(crate) fn interrupt_next(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        insist(|| self.interrupt(tid))
            .and_then(|()| insist(|| self.resume(tid, signal)))
            .or_else(|errno| if errno == Errno::ESRCH { Ok(()) } else { Err(errno) })
    }
}
