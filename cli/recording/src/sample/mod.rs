//! Recordings of sessions that never were, for tests.

mod session;
mod waves;

pub use session::*;
pub use waves::waves;
