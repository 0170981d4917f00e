//! Changing a target and changing it back: calls on a borrowed thread, a home built by them, and words and
//! home given back.

pub mod give_back;
pub mod in_call;
pub mod install;
pub mod orders;
pub mod remote_call;
pub(crate) mod shared_object;
pub mod shelter;
