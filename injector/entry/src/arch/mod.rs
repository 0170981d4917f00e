//! Code of the target's processor: what its instructions do, how one is moved, and what five bytes of it can
//! reach. Every processor's folder has the same names; the rest of the crate knows none of them.
//!
//! The bytes are the target's, so that no processor of the machine is asked for: this folder is compiled on any.

mod x86_64;

pub(crate) use x86_64::*;
