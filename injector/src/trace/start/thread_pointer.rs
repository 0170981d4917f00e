//! The thread pointer, by which the hooks know a thread: without one they would fault. A dynamic
//! loader sets it before a hooked function can be called; a static program does so itself, in its
//! first steps.

use std::time::{Duration, Instant};

use crate::trace::{seen::Seen, start::StartError, stopped::Stopped, target::Target};
use crate::{arch, refusal::Refusal};

/// C libraries need a few system calls until then.
const CALLS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets the program, held at its exec, run on until it has a thread pointer, or does not seem to
/// want one; and holds it there.
///
/// # Errors
/// When it ends before.
pub(crate) fn run_to_it(target: &Target) -> Result<(), StartError> {
    let pid = target.process.pid();
    let deadline = Instant::now() + PATIENCE;
    let (mut calls, mut is_asked, mut pending) = (0, false, 0);
    loop {
        let signal = std::mem::take(&mut pending);
        let resumed = if is_asked || signal != 0 {
            target.tracer().resume(pid, signal)
        } else {
            target.tracer().resume_to_syscall(pid, 0)
        };
        resumed.map_err(StartError::Request)?;
        let seen = target.waiter.wait(pid, deadline);
        match seen {
            Seen::Interrupted if is_asked => return Ok(()),
            Seen::Ended => return Err(StartError::Ended),
            Seen::Nothing => return Err(StartError::Late(PATIENCE)),
            Seen::Signal(signal) => pending = signal,
            Seen::Call | Seen::Interrupted | Seen::Event(_) => {}
        }
        calls += 1;
        let registers = target.tracer().registers(pid).map_err(StartError::Request)?;
        // A signal is delivered first; what its handler does to registers is not ours to see.
        let is_there =
            arch::thread_pointer(&registers).get() != 0 || pending != 0 || calls == CALLS;
        if !is_asked && is_there {
            target.tracer().interrupt(pid).map_err(StartError::Request)?;
            is_asked = true;
        }
    }
}

/// Refuses a program with a thread that has none.
pub(crate) fn check(stop: &Stopped<'_>) -> Result<(), Refusal> {
    let without = |thread: &&crate::trace::stopped::StoppedThread| {
        arch::thread_pointer(&thread.registers).get() == 0
    };
    stop.threads().iter().find(without).map_or(Ok(()), |thread| {
        Err(Refusal::unsupported(
            format!("thread {} has no thread pointer", thread.tid),
            "a program with a C library, which gives one to every thread",
            "heapattach does not support this kind of program yet",
        ))
    })
}
