//! Code of the target's processor, followed over its bytes: this is compiled on any.

mod x86_64;

pub use x86_64::getter;
