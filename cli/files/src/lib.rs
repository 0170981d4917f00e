//! Files that others may have made, or may read: opened, written and read with care.
//!
//! Knows nothing of what is in them.

pub mod artifact;
pub mod input;
pub mod named_file;
