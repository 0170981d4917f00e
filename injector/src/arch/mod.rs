//! What differs between processors: registers, how a system call is made, how a signal frame
//! looks. Every processor's file has the same names; the rest of the crate knows none of them.

pub mod errand_words;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("heapattach knows x86-64 only; add the twin of injector/src/arch/x86_64.rs");

/// A set of signals as the kernel keeps it.
pub type SignalMask = u64;
