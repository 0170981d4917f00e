//! The kinds of allocators: a folder each.

mod glibc;
mod jemalloc;
mod mallocng;
mod mimalloc;
mod page_tree;
mod tcmalloc;

pub use glibc::Glibc;
pub use jemalloc::Jemalloc;
pub use mallocng::Mallocng;
pub use mimalloc::Mimalloc;
pub use tcmalloc::Tcmalloc;

use crate::Walker;

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 5] = [&Glibc, &Jemalloc, &Mallocng, &Mimalloc, &Tcmalloc];
