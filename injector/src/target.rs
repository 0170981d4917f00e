//! A process that is traced: held open by a descriptor, so that its number cannot come to mean another,
//! and stopped for moments at a time. Dropping a [`Stopped`] lets it run.

pub use crate::trace::{
    start,
    stopped::{StopCost, StopError, Stopped},
    target::{Target, may_suspend_seccomp},
    tracer::Tracer,
    wait::{Waiter, reap},
};
