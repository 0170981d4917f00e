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
pub use jemalloc::{Jemalloc, Sample, Samples, free_pages, samples};
pub use mallocng::Mallocng;
pub use mimalloc::Mimalloc;
pub use pymalloc::Pymalloc;
pub use tcmalloc::Tcmalloc;
pub use zend::Zend;

use std::ops::Range;

use crate::{Image, Moment, Thread, Walk, Walker};

/// All of them. A process can have several.
pub const ALL: [&dyn Walker; 7] =
    [&Glibc, &Jemalloc, &Mallocng, &Mimalloc, &Tcmalloc, &Pymalloc, &Zend];

/// Whether a process has a heap of Zend's.
pub(crate) fn has_zend(moment: &Moment<'_>) -> bool {
    zend::is_there(moment)
}

/// What a function of the C library keeps on the stack at most, in words, before the address that it returns to:
/// one that waits for a lock, or maps.
const KEPT: usize = 16;

/// Whether a thread is in a call that an allocator's library makes: it waits for a lock, or maps. A stale word
/// makes it look so, too, which is the safer mistake.
fn is_called_by(moment: &Moment<'_>, image: &Image, thread: &Thread) -> bool {
    let is_c =
        |own: &&Image| own.path.rsplit('/').next().is_some_and(|file| file.starts_with("libc"));
    let libraries = moment.images().iter().filter(is_c);
    let is_within = libraries.into_iter().any(|own| own.range.contains(&thread.code));
    let leads = |words: Vec<u64>| words.iter().any(|word| image.range.contains(word));
    is_within && moment.words(thread.stack & !7, KEPT).is_some_and(leads)
}

/// Threads that are in the code of an allocator's library, by its name, or in a call that it makes; a note says what
/// that means. In a static program it cannot be told.
fn in_library(moment: &Moment<'_>, image: &Image, name: &str, walk: &mut Walk) -> u64 {
    let is_library = image.path.rsplit('/').next().is_some_and(|file| file.contains(name));
    let within = moment
        .threads()
        .iter()
        .filter(|thread| image.range.contains(&thread.code) || is_called_by(moment, image, thread));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RegionKind, synthetic::Synthetic};

    #[test]
    fn a_thread_that_waits_in_a_call_of_the_allocators_is_in_the_middle_of_one() {
        let count = |code: u64, word: u64| {
            let mut memory = Synthetic::default();
            memory.map(0x10_0000..0x11_0000);
            memory.write(0x10_0028, word);
            let thread = Thread { code, stack: 0x10_0000, ..Thread::default() };
            memory.threads = vec![thread];
            let file = RegionKind::File;
            memory.region(0x50_0000..0x60_0000, file, "/lib/libc.so.6");
            memory.region(0x70_0000..0x80_0000, file, "/lib/libjemalloc.so.2");
            let moment = memory.moment();
            let mut walk = Walk::default();
            in_library(&moment, &moment.images()[1], "jemalloc", &mut walk)
        };
        assert_eq!(count(0x70_1000, 0), 1, "its own code");
        assert_eq!(count(0x50_1000, 0x70_1234), 1, "the C library, called by it");
        assert_eq!(count(0x50_1000, 0x40_0000), 0, "called by another");
        assert_eq!(count(0x90_0000, 0x70_1234), 0, "other code with such a word");
    }
}
