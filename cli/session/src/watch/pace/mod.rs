//! How often a session looks at its target: as if something could happen at any time, until nothing has for a
//! while; then seldom, and as often as before with the first record that comes.
//!
//! ```text
//! event loop: counts stand still -> quiet -> bell silenced      records come -> bell rings -> event loop wakes
//! ```

mod bell;
mod quiet;

pub use bell::Bell;
pub use quiet::{Quiet, SELDOM, TICK, pause};
