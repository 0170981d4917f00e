//! Code of the target's processor: what it refers to. The bytes are the target's; this is compiled on any.

mod call;
mod flow;
mod values;
mod x86_64;

pub(crate) use call::{Call, call_before};
pub(crate) use flow::facts;
pub(crate) use values::{Fact, Value};
pub(crate) use x86_64::leads_out;
