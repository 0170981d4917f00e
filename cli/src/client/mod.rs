//! The half of a session that the user talks to, and what the two halves say to each other.

pub(crate) mod channel;
pub(crate) mod claim;
pub(crate) mod front;
pub(crate) mod message;
pub(crate) mod talk;
