//! The kinds of allocators: a folder each.

mod glibc;
mod pymalloc;

pub use glibc::Glibc;
pub use pymalloc::Pymalloc;

use crate::Walker;

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 2] = [&Glibc, &Pymalloc];
