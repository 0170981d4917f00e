//! Being first in line for a processor while a target stands still: whatever runs instead of us
//! makes its stop longer. A real-time class, since a nice value counts only within the scheduling
//! group (of a session, of a cgroup) that we happen to be in.
//!
//! # Safety
//! The scheduler calls read one local record.
#![allow(unsafe_code)]

/// Holds this thread in the real-time class. Without the right to it, it does nothing.
#[derive(Debug)]
pub(crate) struct Urgency {
    raised: bool,
}

impl Urgency {
    /// Takes this thread to the front, unless it is in a class of its own already: because stops
    /// can be nested, or because somebody chose one for us.
    pub(crate) fn raise() -> Self {
        // SAFETY: no pointers are passed.
        let class = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        Self { raised: class == libc::SCHED_OTHER && schedule(libc::SCHED_FIFO, 1) }
    }
}

impl Drop for Urgency {
    fn drop(&mut self) {
        if self.raised {
            schedule(libc::SCHED_OTHER, 0);
        }
    }
}

/// What we fork begins in the ordinary class; taking that flag back would need another right.
fn schedule(class: i32, priority: i32) -> bool {
    // SAFETY: a record of numbers; some C libraries have more of them in it.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    let class = class | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the record outlives the call.
    let result = unsafe { libc::sched_setscheduler(0, class, &raw const parameter) };
    result == 0
}
