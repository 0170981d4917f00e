//! Threads whose system calls the kernel gives back to the program (syscall user dispatch), as Wine
//! and recorders have it: ours, made from the vDSO or by the hooks, would be taken for the program's.

use crate::refusal::Refusal;
use crate::trace::stopped::Stopped;

/// Whether the system calls of a stopped thread may be given back; kernels that do not tell (before
/// 6.4) are believed to have no such thread.
pub(crate) fn is_on(stop: &Stopped<'_>, tid: i32) -> bool {
    stop.tracer().user_dispatch(tid).unwrap_or(false)
}

/// Refuses if a thread has it on.
///
/// # Errors
/// With the thread named.
pub(crate) fn check(stop: &Stopped<'_>) -> Result<(), Refusal> {
    let Some(thread) = stop.threads().iter().find(|thread| is_on(stop, thread.tid)) else {
        return Ok(());
    };
    Err(Refusal::unsupported(
        format!(
            "thread {} has its system calls returned to the program (syscall user dispatch)",
            thread.tid
        ),
        "a program whose system calls go to the kernel",
        "use its own tools: Wine and recorders of system calls work like this",
    ))
}
