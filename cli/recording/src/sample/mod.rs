//! Recordings of sessions that never were, for tests.

mod random_stacks;
mod session;
mod waves;

pub use random_stacks::random_stacks;
pub use session::*;
pub use waves::waves;
