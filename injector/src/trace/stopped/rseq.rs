//! Restartable sequences: a thread inside one must not be moved away and back, since the kernel
//! forgets the sequence when it sees it elsewhere.

use crate::arch;
use crate::trace::stopped::{Stopped, StoppedThread};
use heapattach_process::addr::RemoteAddr;

/// Where the critical section that `thread` is in wants to be resumed when it was interrupted.
pub fn section(stop: &Stopped<'_>, thread: &StoppedThread) -> Option<RemoteAddr> {
    const CRITICAL_SECTION_POINTER: u64 = 8;
    let area = stop.tracer().rseq_area(thread.tid).ok().filter(|&area| area != 0)?;
    let memory = &stop.target().memory;
    let descriptor =
        memory.word(RemoteAddr::new(area).checked_add(CRITICAL_SECTION_POINTER)?).ok()?;
    let descriptor = RemoteAddr::new(descriptor);
    // struct rseq_cs: version and flags, start, length, abort address.
    let start = RemoteAddr::new(memory.word(descriptor.checked_add(8)?).ok()?);
    let length = memory.word(descriptor.checked_add(16)?).ok()?;
    let abort = memory.word(descriptor.checked_add(24)?).ok()?;
    let inside = arch::program_counter(&thread.registers).offset_from(start)? < length;
    inside.then_some(RemoteAddr::new(abort))
}
