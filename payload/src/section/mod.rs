//! What the injector copies into the target: the descriptor, the hooks and their cells, for each machine.

#[path = "arch/x86_64.rs"]
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::heapattach_payload;
