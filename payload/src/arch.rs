//! What is different on each machine: the hooks themselves, and a few instructions.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::heapattach_payload;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    add, ask, copy_memory, exchange_alone, pause, process, read, sleep, thread_pointer, time_stamp,
    yield_processor,
};
