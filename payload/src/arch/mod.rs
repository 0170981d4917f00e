//! A few instructions, which are others on each machine.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    add, ask, copy_memory, exchange_alone, pause, process, read, sleep, thread_pointer, time_stamp,
    yield_processor,
};
