//! The kinds of allocators: a folder each.

mod glibc;

pub use glibc::Glibc;

use crate::Walker;

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 1] = [&Glibc];
