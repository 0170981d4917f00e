//! The half of a session that the user talks to, and what the two halves say to each other.

pub(crate) mod channel;
pub mod claim;
pub mod front;
pub mod growth_command;
pub mod message;
pub mod talk;
