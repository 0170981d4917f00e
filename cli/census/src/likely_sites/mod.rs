//! Who may have allocated the blocks that a session did not record: those that are like recorded ones, in class, size
//! and holders.
//!
//! ```text
//! all blocks, what holds them -> keys; recorded blocks -> how often each site had a key
//! other blocks -> the finest key that enough recorded ones have -> groups
//! ```
//!
//! Which sites are one place is told by their names, later: a group has the number of recorded blocks of each site.

mod groups;
mod keys;

pub use groups::{Group, Likely, Recorded, look};
pub use keys::{Key, Keys, LEVELS};
