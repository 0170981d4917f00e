//! Recordings of sessions that never were, for tests.

mod long_session;
mod random_stacks;
mod session;
mod waves;

pub use long_session::long_session;
pub use random_stacks::random_stacks;
pub use session::*;
pub use waves::waves;
