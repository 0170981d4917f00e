//! What a session reads while the target runs: rings, stacks, counts, and what the program says itself.

pub mod counts;
pub mod heartbeat;
pub(crate) mod loads;
pub mod mailbox;
pub(crate) mod patience;
pub mod places;
pub mod ring;
pub(crate) mod sequence;
pub mod stacks;
pub mod stream;
