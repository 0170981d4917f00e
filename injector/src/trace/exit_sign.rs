//! What a thread that stands at its end says of its process. When a whole process ends, its threads
//! come to their ends one by one; and so they do when one of them execs: the others end before it,
//! and it waits for them.

use crate::arch;
use crate::trace::{insist::insist, tracer::Tracer};
use heapattach_process::proc::Process;

/// What the kernel tells of a process that ends or becomes another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The process goes on without it.
    Alone,
    /// It ends.
    Whole,
    /// It ends, or execs.
    Unclear,
}

impl Sign {
    /// Of a thread at its end; whether it is the last one is asked for where that matters.
    pub(crate) fn of(tracer: &Tracer, tid: i32, is_last: impl FnOnce() -> bool) -> Self {
        let by_signal = tracer.event_message(tid).is_ok_and(|status| status & 0x7f != 0);
        let call = insist(|| tracer.registers(tid)).map(|registers| arch::call_number(&registers));
        match call {
            _ if by_signal => Self::Whole,
            Ok(Some(libc::SYS_exit_group)) => Self::Whole,
            // A thread that ends alone says so; others were doing something else.
            Ok(Some(libc::SYS_exit)) if is_last() => Self::Whole,
            Ok(Some(libc::SYS_exit)) => Self::Alone,
            _ => Self::Unclear,
        }
    }
}

/// Whether a thread waits in an exec for the others to be gone.
pub(crate) fn is_execing(process: &Process, tid: i32) -> bool {
    matches!(process.call_of(tid), Some(libc::SYS_execve | libc::SYS_execveat))
}
