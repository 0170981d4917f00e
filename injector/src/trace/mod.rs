//! Stopping a target, and holding its threads: requests of ptrace, who waits for their answers, all threads
//! stopped at once, whole families of processes, and threads that are watched up to their end.

mod brief_seize;
pub mod delegated;
pub(crate) mod exit_sign;
pub mod exit_watch;
pub mod family;
pub(crate) mod insist;
pub mod member_exit_watch;
pub mod permit;
pub mod ptrace;
pub mod seen;
pub mod start;
pub mod stopped;
pub mod target;
mod thread_timer;
pub(crate) mod threads;
pub mod tracer;
pub mod wait;
pub(crate) mod walk;
