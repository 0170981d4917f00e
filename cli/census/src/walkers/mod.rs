//! The kinds of allocators: a folder each.

mod glibc;
mod jemalloc;
mod mimalloc;

pub use glibc::Glibc;
pub use jemalloc::Jemalloc;
pub use mimalloc::Mimalloc;

use crate::Walker;

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 3] = [&Glibc, &Jemalloc, &Mimalloc];
