//! How often a session looks at its target: as if something could happen at any time, until nothing has for a
//! while; then seldom, and as often as before with the first record that comes.
//!
//! ```text
//! event loop: no record, few calls -> quiet -> bell silenced, long sleep
//! reader: records, calls, a thread, a module -> bell rings -> event loop wakes
//! ```

mod activity;
mod bell;
mod quiet;

pub use activity::Activity;
pub use bell::Bell;
pub use quiet::{LATER, LIMITS, Quiet, SELDOM, TICK, pause};
