//! Code of the target's processor: what it refers to. The bytes are the target's; this is compiled on any.

mod call;
mod x86_64;

pub(crate) use call::{Call, call_before};
pub(crate) use x86_64::leads_out;
