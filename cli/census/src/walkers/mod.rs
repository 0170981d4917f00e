//! The kinds of allocators: a folder each.

mod glibc;
mod jemalloc;

pub use glibc::Glibc;
pub use jemalloc::Jemalloc;

use crate::Walker;

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 2] = [&Glibc, &Jemalloc];
