//! The kinds of allocators: a folder each.

pub(crate) mod glibc;
pub(crate) mod jemalloc;
pub(crate) mod mallocng;
pub(crate) mod mimalloc;
mod page_tree;
mod pymalloc;
pub(crate) mod tcmalloc;
mod zend;

pub use glibc::Glibc;
pub use jemalloc::{Jemalloc, dirty_pages};
pub use mallocng::Mallocng;
pub use mimalloc::Mimalloc;
pub use pymalloc::Pymalloc;
pub use tcmalloc::Tcmalloc;
pub use zend::Zend;

use std::ops::Range;

use crate::{Image, Moment, Walk, Walker};

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 7] =
    [&Glibc, &Jemalloc, &Mallocng, &Mimalloc, &Tcmalloc, &Pymalloc, &Zend];

/// Whether a process has a heap of Zend's.
pub(crate) fn has_zend(moment: &Moment<'_>) -> bool {
    zend::is_there(moment)
}

/// Threads that are in the code of an allocator's library, by its name; a note says what that means. In a
/// static program it cannot be told.
fn in_library(moment: &Moment<'_>, image: &Image, name: &str, walk: &mut Walk) -> u64 {
    let is_library = image.path.rsplit('/').next().is_some_and(|file| file.contains(name));
    let within = moment.threads().iter().filter(|thread| image.range.contains(&thread.code));
    let count = if is_library { within.count() as u64 } else { 0 };
    if count > 0 {
        let what = "each may have a batch of blocks on its way to or from its cache";
        walk.notes.push(format!("{count} threads are within the allocator: {what}"));
    }
    count
}

/// Whether all of a range is private memory.
fn is_private(moment: &Moment<'_>, range: &Range<u64>) -> bool {
    let mut at = range.start;
    while at < range.end {
        match moment.region(at).filter(|region| region.is_private_memory()) {
            Some(region) => at = region.range.end,
            None => return false,
        }
    }
    true
}
